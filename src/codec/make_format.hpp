// Formats by name: what users write in options, variables and schedules.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "src/codec/block_format.hpp"
#include "src/codec/format.hpp"
#include "tutti/error.hpp"

namespace tutti::codec {

/// `text` is a name and settings, as in "int8:block=128:scale=fp16". Settings that are left out
/// have defaults; traits().name shows all. An error names the word that is wrong, and what is
/// expected in its place. Settings of other users ("seed=7") are errors here.
Result<std::shared_ptr<const Format>> make_format(std::string_view text,
                                                  Loops loops = Loops::kBest);

/// One line for lists and help.
struct FormatSummary {
  std::string_view name;      ///< as make_format() takes it
  std::string_view settings;  ///< "" or "block=32..8192, scale=fp16|fp32"
  std::string_view summary;
};
const std::vector<FormatSummary>& known_formats();

}  // namespace tutti::codec
