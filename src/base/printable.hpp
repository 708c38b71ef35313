// Cleans foreign text for messages, because terminals obey control bytes.
#pragma once

#include <string>
#include <string_view>

namespace tutti {

/// `text` with control bytes written as \xNN, except those in `kept`.
std::string without_controls(std::string_view text, std::string_view kept = "");

}  // namespace tutti
