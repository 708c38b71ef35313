// The file format in which trained weights are exchanged: a JSON header, then the numbers.
//
//   8 bytes     length of the header, little-endian
//   header      {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
//                "__metadata__": {"KEY": "VALUE"}}, may end in blanks
//   the rest    float32, little-endian; offsets count from its beginning
//
// Tensors cover the rest exactly once, without gaps. (The format of
// github.com/huggingface/safetensors; this reads and writes its float32 tensors.)
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
  std::vector<std::int64_t> shape;  ///< empty: a scalar
  std::uint64_t begin = 0;          ///< in bytes, from the end of the header
  std::uint64_t elements = 0;
  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

/// The contents of a header: tensors in the order in which they lie. Value.
struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<StoredTensor> tensors;
  friend bool operator==(const SafetensorsHeader&, const SafetensorsHeader&) = default;
};

/// Parses the header of a file with `data_bytes` bytes after it. Accepts untrusted text. kWrongData
/// says what is wrong with which tensor: no JSON, an invalid shape, offsets that do not fit the
/// shape, overlap, leave a gap or lead out of the file. kUnsupported: a tensor type other than F32.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, std::uint64_t data_bytes);
/// The header's text, padded to a multiple of 8 bytes. `begin` and `elements` follow from order and
/// shapes.
std::string safetensors_header_json(const SafetensorsHeader& header);

/// A readable file. Value.
class SafetensorsFile {
 public:
  /// kUnavailable: it cannot be read. Otherwise fails as parse_safetensors_header does, naming the
  /// file.
  static Result<SafetensorsFile> open(const std::filesystem::path& file);
  [[nodiscard]] const SafetensorsHeader& header() const { return header_; }
  /// All elements of a tensor.
  [[nodiscard]] Result<std::vector<float>> read(const StoredTensor& tensor) const;

 private:
  SafetensorsFile(std::filesystem::path file, SafetensorsHeader header, std::uint64_t data)
      : file_(std::move(file)), header_(std::move(header)), data_(data) {}
  std::filesystem::path file_;
  SafetensorsHeader header_;
  std::uint64_t data_;  ///< offset of the numbers
};

/// Writes a file. `values` returns all elements of each tensor; it is called in tensor order.
Status write_safetensors(const std::filesystem::path& file, const SafetensorsHeader& header,
                         const std::function<Result<std::vector<float>>(std::size_t)>& values);

}  // namespace tutti::training
