#pragma once
#include "src/base/bytes.hpp"
