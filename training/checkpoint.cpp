#include "training/checkpoint.hpp"

#include <algorithm>
#include <bit>
#include <system_error>
#include <utility>

#include "training/agreement.hpp"
#include "training/checkpoint_folders.hpp"
#include "training/crc32c.hpp"
#include "training/files.hpp"
#include "training/outcome.hpp"

namespace tutti::training {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr std::size_t kMostManifest = std::size_t{1} << 28U;
constexpr std::uint64_t kChunk = 1 << 18;  // elements that are read at once

Error refused(const char* what, const fs::path& path, const std::error_code& why) {
  return failure(Code::kUnavailable, "{} {}: {}", what, path.string(), why.message());
}

/// On rank 0 alone: where the others write. What an earlier attempt left is removed.
Status prepare_folder(const fs::path& folder, const fs::path& final, const fs::path& temporary) {
  std::error_code why;
  if (fs::exists(final, why))
    return failure(Code::kInvalidUsage,
                   "{} is there: a step is saved once; remove it if it is damaged", final.string());
  fs::remove_all(temporary, why);
  if (why) return refused("removing", temporary, why);
  fs::create_directories(temporary, why);
  if (why) return refused("creating", temporary, why);
  return flush_folder(folder);
}

/// What has to be written of a piece: not what readers take for 0 anyway.
std::vector<OwnedPiece> parts_to_write(const OwnedPiece& piece) {
  constexpr std::size_t kRun = 1 << 14;
  if (!may_have_gaps(piece.kind)) return {piece};
  std::vector<OwnedPiece> parts;
  std::size_t end = 0;  // of the last part
  for (std::size_t begin = 0; begin < piece.data.size(); begin += kRun) {
    const auto run = piece.data.subspan(begin, std::min(kRun, piece.data.size() - begin));
    if (std::ranges::all_of(run, [](float value) { return value == 0; })) continue;
    if (parts.empty() || end != begin)
      parts.push_back({piece.kind, piece.parameter, piece.begin + begin, run});
    else
      parts.back().data = {parts.back().data.data(), parts.back().data.size() + run.size()};
    end = begin + run.size();
  }
  return parts;
}

/// One rank's file; fills `stored`.
Status write_own(const fs::path& folder, Rank rank, std::span<const OwnedPiece> owned,
                 std::vector<StoredPiece>& stored) {
  const std::string file = fmt::format("rank_{}.bin", rank);
  std::vector<std::span<const std::byte>> parts;
  std::uint64_t offset = 0;
  for (const OwnedPiece& whole : owned) {
    for (const OwnedPiece& piece : parts_to_write(whole)) {
      if (piece.data.empty()) continue;
      parts.push_back(std::as_bytes(piece.data));
      stored.push_back({piece.kind, piece.parameter, piece.begin, piece.data.size(), file, offset,
                        crc32c(parts.back())});
      offset += parts.back().size();
    }
  }
  return write_durably(folder / file, parts);
}

/// On rank 0 alone: makes it count.
Status complete(const fs::path& folder, const fs::path& final, const fs::path& temporary,
                const Manifest& manifest) {
  const std::string text = manifest_json(manifest);
  // What nobody could read later is not worth keeping.
  if (const auto parsed = parse_manifest(text); !parsed) {
    Error error = parsed.error();
    error.code = Code::kInvalidArgument;
    return error;
  }
  const auto write = [](const fs::path& file, std::string_view words) {
    const std::span<const std::byte> parts[] = {std::as_bytes(std::span(words))};
    return write_durably(file, parts);
  };
  TRAINING_TRY(write(temporary / "manifest.json", text));
  TRAINING_TRY(flush_folder(temporary));
  std::error_code why;
  fs::rename(temporary, final, why);
  if (why) return refused("renaming", temporary, why);
  TRAINING_TRY(write(folder / "latest.tmp", final.filename().string() + "\n"));
  fs::rename(folder / "latest.tmp", folder / "latest", why);
  if (why) return refused("renaming", folder / "latest.tmp", why);
  return flush_folder(folder);
}

Result<Manifest> read_manifest(const fs::path& folder) {
  const fs::path file = folder / "manifest.json";
  TRAINING_ASSIGN(const std::string text, read_text(file, kMostManifest));
  auto manifest = parse_manifest(text);
  if (manifest) return manifest;
  Error error = std::move(manifest).error();
  error.what = fmt::format("{}: {}", file.string(), error.what);
  return error;
}

Status check_length(const fs::path& folder, const StoredPiece& piece, const std::string& name) {
  const fs::path file = folder / piece.file;
  std::error_code why;
  const std::uintmax_t size = fs::file_size(file, why);
  if (why) return refused("opening", file, why);
  if (size >= piece.offset && (size - piece.offset) / sizeof(float) >= piece.count)
    return ok_status();
  return failure(Code::kWrongData,
                 "{} was cut short: it has {} bytes, and '{}' of kind '{}' lies behind. Move this "
                 "checkpoint away, to take the one before",
                 file.string(), size, name, piece.kind);
}

/// Elements [first, last) of a piece, of which all is held to its checksum. `name`: of its
/// parameter.
Result<std::vector<float>> read_piece(const fs::path& folder, const StoredPiece& piece,
                                      const std::string& name, std::uint64_t first,
                                      std::uint64_t last) {
  TRAINING_TRY(check_length(folder, piece, name));
  const fs::path file = folder / piece.file;
  std::vector<float> wanted(last - first);
  std::vector<float> chunk(std::min<std::uint64_t>(piece.count, kChunk));
  Crc32c crc;
  for (std::uint64_t begin = 0; begin < piece.count; begin += kChunk) {
    const std::uint64_t count = std::min<std::uint64_t>(piece.count - begin, kChunk);
    const auto bytes = std::as_writable_bytes(std::span(chunk).first(count));
    TRAINING_TRY(read_part(file, piece.offset + begin * sizeof(float), bytes));
    crc.add(bytes);
    const std::uint64_t from = std::max(first, begin), to = std::min(last, begin + count);
    if (from < to)
      std::copy_n(chunk.begin() + static_cast<std::ptrdiff_t>(from - begin), to - from,
                  wanted.begin() + static_cast<std::ptrdiff_t>(from - first));
  }
  if (crc.value() == piece.crc) return wanted;
  return failure(Code::kWrongData,
                 "{} is damaged: '{}' of kind '{}' from element {} on differs from its checksum. "
                 "Move this checkpoint away, to take the one before",
                 file.string(), name, piece.kind, piece.begin);
}

}  // namespace

Status save_checkpoint(const fs::path& folder, const CheckpointHead& head,
                       const ParameterTable& table, std::span<const OwnedPiece> owned, Comm& comm) {
  const fs::path final = complete_checkpoint(folder, head.step);
  const fs::path temporary = unfinished_checkpoint(folder, head.step);
  const bool leads = comm.rank() == 0;
  TRAINING_TRY(agree(comm, leads ? prepare_folder(folder, final, temporary) : ok_status()));
  std::vector<StoredPiece> stored;
  TRAINING_TRY(agree(comm, write_own(temporary, comm.rank(), owned, stored)));
  TRAINING_ASSIGN(const auto texts, gather_texts(comm, pieces_json(stored, table)));
  if (!leads) return agree(comm, ok_status());
  Manifest manifest{head.step, head.counters, {table.all().begin(), table.all().end()}, {}};
  const auto finish = [&]() -> Status {
    for (const std::string& text : texts) {
      TRAINING_ASSIGN(const auto pieces, parse_pieces(text, table));
      manifest.pieces.insert(manifest.pieces.end(), pieces.begin(), pieces.end());
    }
    return complete(folder, final, temporary, manifest);
  };
  return agree(comm, finish());
}

Result<Checkpoint> Checkpoint::open(const fs::path& folder, std::optional<std::uint64_t> step) {
  if (step) {
    const fs::path wanted = complete_checkpoint(folder, *step);
    TRAINING_ASSIGN(Manifest manifest, read_manifest(wanted));
    if (manifest.step != *step)
      return failure(Code::kWrongData, "{} holds step {}", wanted.string(), manifest.step);
    return Checkpoint(wanted, std::move(manifest));
  }
  std::optional<Error> damaged;
  TRAINING_ASSIGN(const std::vector<std::uint64_t> steps, complete_steps(folder));
  for (auto candidate = steps.rbegin(); candidate != steps.rend(); ++candidate) {
    const fs::path found = complete_checkpoint(folder, *candidate);
    auto manifest = read_manifest(found);
    if (manifest) return Checkpoint(found, *std::move(manifest));
    if (!damaged) damaged = std::move(manifest).error();
  }
  if (damaged) return *damaged;
  return failure(Code::kUnavailable, "there is no checkpoint in {}", folder.string());
}

Status Checkpoint::check_model(const ParameterTable& table) const {
  TRAINING_ASSIGN(const ParameterTable saved, ParameterTable::create(manifest_.parameters));
  const std::string differs = difference(table, saved);
  if (differs.empty()) return ok_status();
  return failure(Code::kInvalidArgument, "{} is of another model: {}", folder_.string(), differs);
}

Status Checkpoint::check_files() const {
  for (const StoredPiece& piece : manifest_.pieces)
    TRAINING_TRY(check_length(folder_, piece, manifest_.parameters[piece.parameter].name));
  return ok_status();
}

Status Checkpoint::read(std::string_view kind, ParameterId parameter, std::uint64_t begin,
                        std::span<float> into) const {
  if (parameter >= manifest_.parameters.size())
    return failure(Code::kInvalidArgument, "{} has {} parameters, and none of number {}",
                   folder_.string(), manifest_.parameters.size(), parameter);
  const std::uint64_t end = begin + into.size();
  if (may_have_gaps(kind)) std::ranges::fill(into, 0.0F);
  std::uint64_t found = 0;
  for (const StoredPiece& piece : manifest_.pieces) {
    const std::uint64_t first = std::max(begin, piece.begin),
                        last = std::min(end, piece.begin + piece.count);
    if (piece.kind != kind || piece.parameter != parameter || first >= last) continue;
    TRAINING_ASSIGN(const std::vector<float> part,
                    read_piece(folder_, piece, manifest_.parameters[parameter].name,
                               first - piece.begin, last - piece.begin));
    std::ranges::copy(part, into.begin() + static_cast<std::ptrdiff_t>(first - begin));
    found += last - first;
  }
  if (found == into.size() || may_have_gaps(kind)) return ok_status();
  return failure(Code::kInvalidArgument, "{} has {} of elements {} to {} of '{}' of kind '{}'",
                 folder_.string(), found, begin, end, manifest_.parameters[parameter].name, kind);
}

}  // namespace tutti::training
