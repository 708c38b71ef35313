#include "training/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

#include <unistd.h>

#include "training/files.hpp"
#include "training/json.hpp"
#include "training/outcome.hpp"
#include "training/parameters.hpp"

namespace tutti::training {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::uint64_t kLongestHeader = std::uint64_t{1} << 26U;
constexpr int kDeepestHeader = 3;
constexpr std::size_t kMostTensors = 1 << 20, kMostDimensions = 64;

template <class... Args>
Error wrong_header(fmt::format_string<Args...> format, Args&&... args) {
  return failure(Code::kWrongData, format, std::forward<Args>(args)...);
}

const Json* member_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

/// Its product, at most kMostElements.
std::optional<std::uint64_t> elements_of(const std::vector<std::int64_t>& shape) {
  std::uint64_t product = 1;
  for (const std::int64_t dimension : shape) {
    const auto wide = static_cast<std::uint64_t>(dimension);
    if (wide != 0 && product > kMostElements / wide) return std::nullopt;
    product *= wide;
  }
  return product;
}

Result<StoredTensor> parse_tensor(const std::string& name, const Json& json) {
  if (name.empty() || name.size() > kLongestName)
    return wrong_header("a tensor has a name of {} bytes: 1 to {} fit", name.size(), kLongestName);
  if (!json.is_object()) return wrong_header("tensor '{}' is no object", name);
  StoredTensor tensor{.name = name, .shape = {}};
  const Json* const type = member_of(json, "dtype");
  const Json* const shape = member_of(json, "shape");
  const Json* const offsets = member_of(json, "data_offsets");
  if (type == nullptr || !type->is_string() || shape == nullptr || !shape->is_array() ||
      shape->size() > kMostDimensions || offsets == nullptr || !offsets->is_array() ||
      offsets->size() != 2 || !(*offsets)[0].is_number_unsigned() ||
      !(*offsets)[1].is_number_unsigned())
    return wrong_header("tensor '{}' lacks its dtype, shape or data_offsets", name);
  if (type->get<std::string>() != "F32")
    return failure(Code::kUnsupported, "tensor '{}' is of {}: convert it to F32", name,
                   type->dump(-1, ' ', true, Json::error_handler_t::replace));
  for (const Json& dimension : *shape) {
    if (!dimension.is_number_unsigned() || dimension.get<std::uint64_t>() > kMostElements)
      return wrong_header("the shape of tensor '{}' has a dimension that is none", name);
    tensor.shape.push_back(dimension.get<std::int64_t>());
  }
  const auto elements = elements_of(tensor.shape);
  if (!elements) return wrong_header("tensor '{}' has more than {} elements", name, kMostElements);
  tensor.elements = *elements;
  tensor.begin = (*offsets)[0].get<std::uint64_t>();
  const auto end = (*offsets)[1].get<std::uint64_t>();
  if (end < tensor.begin || end - tensor.begin != *elements * sizeof(float))
    return wrong_header("tensor '{}' has {} elements, which do not fill bytes {} to {}", name,
                        *elements, tensor.begin, end);
  return tensor;
}

/// Sorted by where they lie: one after the other, from the first byte to the last.
Status check_coverage(const std::vector<StoredTensor>& tensors, std::uint64_t data_bytes) {
  std::uint64_t covered = 0;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.begin != covered)
      return wrong_header("tensor '{}' begins at byte {}, and the one before it ends at {}",
                          tensor.name, tensor.begin, covered);
    const std::uint64_t bytes = tensor.elements * sizeof(float);
    if (bytes > data_bytes - covered)
      return wrong_header("tensor '{}' ends behind the file: it was cut short", tensor.name);
    covered += bytes;
  }
  if (covered == data_bytes) return ok_status();
  return wrong_header("{} bytes behind the last tensor are nobody's", data_bytes - covered);
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::string_view text,
                                                   std::uint64_t data_bytes) {
  const Json json = parse_json(text, kDeepestHeader);
  if (!json.is_object() || json.size() > kMostTensors)
    return wrong_header("this is no safetensors file: its header is no object of JSON");
  SafetensorsHeader header;
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadata) {
      if (!value.is_object()) return wrong_header("{} is no object of texts", kMetadata);
      for (const auto& [key, entry] : value.items()) {
        if (!entry.is_string()) return wrong_header("'{}' of {} is no text", key, kMetadata);
        header.metadata[key] = entry.get<std::string>();
      }
      continue;
    }
    TRAINING_ASSIGN(StoredTensor tensor, parse_tensor(name, value));
    header.tensors.push_back(std::move(tensor));
  }
  std::ranges::sort(header.tensors, {}, [](const StoredTensor& tensor) {
    return std::tie(tensor.begin, tensor.elements, tensor.name);
  });
  TRAINING_TRY(check_coverage(header.tensors, data_bytes));
  return header;
}

std::string safetensors_header_json(const SafetensorsHeader& header) {
  Json json = Json::object();
  if (!header.metadata.empty()) json[std::string(kMetadata)] = header.metadata;
  std::uint64_t begin = 0;
  for (const StoredTensor& tensor : header.tensors) {
    const std::uint64_t end = begin + elements_of(tensor.shape).value_or(0) * sizeof(float);
    json[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr std::size_t kAlign = 8;
  text.resize((text.size() + kAlign - 1) / kAlign * kAlign, ' ');
  return text;
}

Result<SafetensorsFile> SafetensorsFile::open(const fs::path& file) {
  std::error_code why;
  const std::uintmax_t size = fs::file_size(file, why);
  if (why) return failure(Code::kUnavailable, "opening {}: {}", file.string(), why.message());
  std::uint64_t length = 0;
  if (size < sizeof length)
    return wrong_header("{} is no safetensors file: it has {} bytes", file.string(), size);
  TRAINING_TRY(read_part(file, 0, std::as_writable_bytes(std::span(&length, 1))));
  if (length > kLongestHeader || length > size - sizeof length)
    return wrong_header(
        "{} is no safetensors file, or was cut short: its header would have {} bytes",
        file.string(), length);
  std::string text(length, '\0');
  TRAINING_TRY(read_part(file, sizeof length, std::as_writable_bytes(std::span(text))));
  const std::uint64_t data = sizeof length + length;
  auto header = parse_safetensors_header(text, size - data);
  if (header) return SafetensorsFile(file, *std::move(header), data);
  Error error = std::move(header).error();
  error.what = fmt::format("{}: {}", file.string(), error.what);
  return error;
}

Result<std::vector<float>> SafetensorsFile::read(const StoredTensor& tensor) const {
  std::vector<float> values(tensor.elements);
  TRAINING_TRY(read_part(file_, data_ + tensor.begin, std::as_writable_bytes(std::span(values))));
  return values;
}

namespace {

/// Where links lead.
fs::path replaced(const fs::path& file) {
  std::error_code why;
  fs::path target = fs::canonical(file, why);
  return why ? file : target;
}

/// A file beside it, so that a failure leaves what was there. What is no regular file is written
/// itself.
fs::path written_first(const fs::path& file) {
  std::error_code ignored;
  const fs::file_type type = fs::status(file, ignored).type();
  if (type != fs::file_type::not_found && type != fs::file_type::regular) return file;
  return replaced(file).concat(fmt::format(".{}.tmp", ::getpid()));
}

}  // namespace

Status write_safetensors(const fs::path& file, const SafetensorsHeader& header,
                         const std::function<Result<std::vector<float>>(std::size_t)>& values) {
  const std::string text = safetensors_header_json(header);
  const std::uint64_t length = text.size();
  std::array<char, sizeof length> prefix = std::bit_cast<std::array<char, sizeof length>>(length);
  const fs::path written = written_first(file);
  std::ofstream out(written, std::ios::binary);
  out.write(prefix.data(), prefix.size());
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  for (std::size_t i = 0; out && i < header.tensors.size(); ++i) {
    TRAINING_ASSIGN(const std::vector<float> tensor, values(i));
    if (tensor.size() != elements_of(header.tensors[i].shape))
      return failure(Code::kInternal, "{} values for tensor '{}'", tensor.size(),
                     header.tensors[i].name);
    out.write(reinterpret_cast<const char*>(tensor.data()),
              static_cast<std::streamsize>(tensor.size() * sizeof(float)));
  }
  out.close();
  std::error_code why(errno, std::generic_category());
  if (out) why.clear();
  if (out && written != file) fs::rename(written, replaced(file), why);
  if (out && !why) return ok_status();
  std::error_code ignored;
  if (written != file) fs::remove(written, ignored);
  return failure(Code::kUnavailable, "cannot write all of {}: {}", file.string(), why.message());
}

}  // namespace tutti::training
