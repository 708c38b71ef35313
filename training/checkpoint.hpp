// Checkpoints: written by some number of ranks, read by any other.
//
//   FOLDER/step_50/manifest.json   what there is and where (manifest.hpp)
//   FOLDER/step_50/rank_0.bin ...  float32, what that rank owned
//   FOLDER/latest                  "step_50"
//
// A checkpoint is written to FOLDER/step_50.tmp, flushed to the disk, and renamed as its last act:
// a folder without ".tmp" is complete, whatever ended the writers. What is read is held to the
// checksum of each piece.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "training/manifest.hpp"
#include "training/parameters.hpp"
#include "tutti/communicator.hpp"
#include "tutti/error.hpp"

namespace tutti::training {

/// Part of a tensor that this rank owns: elements from `begin` on.
struct OwnedPiece {
  std::string kind;  ///< "parameter", "first" ...
  ParameterId parameter = 0;
  std::uint64_t begin = 0;
  std::span<const float> data;
};

/// What is saved beside tensors, the same on all ranks.
struct CheckpointHead {
  std::uint64_t step = 0;
  std::map<std::string, std::uint64_t> counters;
};

/// Writes a checkpoint. Collective: all ranks together own every element of each kind once, as is
/// checked before the checkpoint counts. All ranks return alike, and the error of one that could
/// not write names it; an earlier checkpoint is not touched then. kUnavailable: the disk is full or
/// cannot be written. kInvalidUsage: there is one of this step.
Status save_checkpoint(const std::filesystem::path& folder, const CheckpointHead& head,
                       const ParameterTable& table, std::span<const OwnedPiece> owned, Comm& comm);

/// A checkpoint that is there to be read. Value.
class Checkpoint {
 public:
  /// The one of `step`; without, the latest that is complete and whose manifest can be read, though
  /// `latest` may name another. kUnavailable: there is none. kWrongData: its manifest is damaged.
  static Result<Checkpoint> open(const std::filesystem::path& folder,
                                 std::optional<std::uint64_t> step = std::nullopt);

  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

  /// kInvalidArgument where the model has other parameters; shows the first difference.
  [[nodiscard]] Status check_model(const ParameterTable& table) const;
  /// Whether the files are as long as the manifest says: for readers that take memory for all of
  /// it.
  [[nodiscard]] Status check_files() const;
  /// Elements of a parameter from `begin` on. kWrongData names the file that is damaged or short.
  Status read(std::string_view kind, ParameterId parameter, std::uint64_t begin,
              std::span<float> into) const;

 private:
  Checkpoint(std::filesystem::path folder, Manifest manifest)
      : folder_(std::move(folder)), manifest_(std::move(manifest)) {}
  std::filesystem::path folder_;
  Manifest manifest_;
};

}  // namespace tutti::training
