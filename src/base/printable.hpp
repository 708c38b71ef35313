// Foreign text in messages: terminals obey control bytes, so they are not passed on.
#pragma once

#include <string>
#include <string_view>

namespace tutti {

/// `text` with control bytes as \xNN, but for those in `kept`.
std::string without_controls(std::string_view text, std::string_view kept = "");

}  // namespace tutti
