// The files in which trained weights are passed around: a header of JSON, then the numbers.
//
//   8 bytes     length of the header, little-endian
//   header      {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
//                "__metadata__": {"KEY": "VALUE"}}, may end in blanks
//   the rest    float32, little-endian; offsets are of its beginning
//
// Tensors cover the rest once, without gaps. (The format of github.com/huggingface/safetensors, of
// which this reads and writes float32.)
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.hpp"

namespace tutti::training {

/// Value.
struct StoredTensor {
  std::string name;
  std::vector<std::int64_t> shape;  ///< none: a scalar
  std::uint64_t begin = 0;          ///< bytes from the end of the header on
  std::uint64_t elements = 0;
  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

/// What a file says of itself: tensors in the order in which they lie. Value.
struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<StoredTensor> tensors;
  friend bool operator==(const SafetensorsHeader&, const SafetensorsHeader&) = default;
};

/// The header of a file that has `data_bytes` behind it. Hostile-safe. kWrongData says what is
/// wrong and of which tensor: no JSON, a shape that is none, offsets that do not fit it, overlap,
/// leave a gap or lead out of the file. kUnsupported: a tensor of another type than F32.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, std::uint64_t data_bytes);
/// Its text, padded to a multiple of 8 bytes. begin and elements are taken from order and shapes.
std::string safetensors_header_json(const SafetensorsHeader& header);

/// A file that is there to be read. Value.
class SafetensorsFile {
 public:
  /// kUnavailable: it cannot be read. Else as parse_safetensors_header, with the file named.
  static Result<SafetensorsFile> open(const std::filesystem::path& file);
  [[nodiscard]] const SafetensorsHeader& header() const { return header_; }
  /// All elements of a tensor.
  [[nodiscard]] Result<std::vector<float>> read(const StoredTensor& tensor) const;

 private:
  SafetensorsFile(std::filesystem::path file, SafetensorsHeader header, std::uint64_t data)
      : file_(std::move(file)), header_(std::move(header)), data_(data) {}
  std::filesystem::path file_;
  SafetensorsHeader header_;
  std::uint64_t data_;  ///< where numbers begin
};

/// Writes a file. `values` gives all elements of each tensor, asked for in their order.
Status write_safetensors(const std::filesystem::path& file, const SafetensorsHeader& header,
                         const std::function<Result<std::vector<float>>(std::size_t)>& values);

}  // namespace tutti::training
