#include "tools/train/text_data.hpp"

#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

#include "src/base/result.hpp"
#include "src/base/whole_file.hpp"
#include "tools/program/cli.hpp"
#include "training/crc32c.hpp"

namespace tutti::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr std::string_view kMagic = "TUTTITXT";
constexpr std::uint64_t kTextVersion = 1;
constexpr std::size_t kVersionAt = 8, kTrainingAt = 16, kValidationAt = 24, kTextCrcAt = 32,
                      kHeadCrcAt = 36, kHeadBytes = 40;
constexpr std::size_t kMostBytes = std::size_t{1} << 34U;

template <class T>
T number_at(std::string_view bytes, std::size_t offset) {
  T number{};
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

template <class T>
void append(std::string& bytes, T number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::uint32_t crc_of(std::string_view bytes) {
  return training::crc32c(std::as_bytes(std::span(bytes)));
}

}  // namespace

TextData::TextData(std::string bytes, std::size_t begin, std::size_t training)
    : bytes_(std::move(bytes)), begin_(begin), training_(training) {
  hash_ = training::Crc32c()
              .add(std::as_bytes(all()))
              .add(std::as_bytes(std::span(&training_, 1)))
              .value();
}

bool TextData::is_prepared(std::string_view file) { return file.starts_with(kMagic); }

Result<TextData> TextData::open(const std::string& path) {
  auto bytes = read_file(path, kMostBytes);
  if (!bytes)
    return make_error(bytes.error().code,
                      "{}; name a text file of some MB: 'tools/get-text FILE' fetches one",
                      bytes.error().what);
  auto data =
      is_prepared(*bytes) ? parse(*std::move(bytes)) : split(*std::move(bytes), kValidationShare);
  if (data) return data;
  return make_error(data.error().code, "{}: {}", tools::shown_path(path), data.error().what);
}

Result<TextData> TextData::split(std::string bytes, double share) {
  if (bytes.empty())
    return make_error(Code::kWrongData, "it is empty: there is nothing to train on");
  const auto kept = static_cast<std::size_t>(share * static_cast<double>(bytes.size()));
  const std::size_t training = bytes.size() - kept;
  return TextData(std::move(bytes), 0, training);
}

Result<TextData> TextData::parse(std::string file) {
  if (!is_prepared(file) || file.size() < kHeadBytes)
    return make_error(Code::kWrongData, "this is no data by 'tutti train prepare'");
  const std::string_view head(file.data(), kHeadCrcAt);
  if (crc_of(head) != number_at<std::uint32_t>(file, kHeadCrcAt))
    return make_error(Code::kWrongData, "its header is damaged: prepare it again");
  const auto version = number_at<std::uint64_t>(file, kVersionAt);
  if (version != kTextVersion)
    return make_error(Code::kWrongData,
                      "it is of version {}, and this program reads version {}: prepare it again",
                      version, kTextVersion);
  const auto training = number_at<std::uint64_t>(file, kTrainingAt);
  const auto validation = number_at<std::uint64_t>(file, kValidationAt);
  const std::size_t there = file.size() - kHeadBytes;
  if (training == 0 || training > there || validation != there - training)
    return make_error(Code::kWrongData,
                      "it has {} bytes of text where its header says {} + {}: prepare it again",
                      there, training, validation);
  if (crc_of(std::string_view(file).substr(kHeadBytes)) !=
      number_at<std::uint32_t>(file, kTextCrcAt))
    return make_error(Code::kWrongData,
                      "its text differs from its checksum: it is damaged; prepare it again");
  return TextData(std::move(file), kHeadBytes, training);
}

std::string TextData::file() const {
  std::string file(kMagic);
  append(file, kTextVersion);
  append<std::uint64_t>(file, training_);
  append<std::uint64_t>(file, all().size() - training_);
  append(file, training::crc32c(std::as_bytes(all())));
  append(file, crc_of(file));
  const auto text = all();
  return file.append(reinterpret_cast<const char*>(text.data()), text.size());
}

}  // namespace tutti::trainer
