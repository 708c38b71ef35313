// Checkpoints: written by some number of ranks, readable by any other number.
//
//   FOLDER/step_50/manifest.json   what there is, and where (manifest.hpp)
//   FOLDER/step_50/rank_0.bin ...  float32 data that this rank owned
//   FOLDER/latest                  "step_50"
//
// A checkpoint is written to FOLDER/step_50.tmp, flushed to the disk, and finally renamed. So a
// folder without ".tmp" is complete, whatever happened to its writers. Readers verify the checksum
// of each piece.
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

/// A part of a tensor that this rank owns: elements from `begin` on.
struct OwnedPiece {
  std::string kind;  ///< "parameter", "first" ...
  ParameterId parameter = 0;
  std::uint64_t begin = 0;
  std::span<const float> data;
};

/// What is saved besides tensors; equal on all ranks.
struct CheckpointHead {
  std::uint64_t step = 0;
  std::map<std::string, std::uint64_t> counters;
};

/// Writes a checkpoint. Collective. The ranks together must own every element of each kind exactly
/// once; this is checked before the checkpoint becomes valid. Of kinds that may_have_gaps() long
/// runs of zeros are left out. All ranks return alike. If a rank
/// could not write, the error names it, and earlier checkpoints are not touched. kUnavailable: the
/// disk is full or not writable. kInvalidUsage: a checkpoint of this step exists already.
Status save_checkpoint(const std::filesystem::path& folder, const CheckpointHead& head,
                       const ParameterTable& table, std::span<const OwnedPiece> owned, Comm& comm);

/// A readable checkpoint. Value.
class Checkpoint {
 public:
  /// The checkpoint of `step`. Without `step`, the latest that is complete and has a readable
  /// manifest, whatever the file `latest` says. kUnavailable: there is none. kWrongData: its
  /// manifest is damaged.
  static Result<Checkpoint> open(const std::filesystem::path& folder,
                                 std::optional<std::uint64_t> step = std::nullopt);

  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

  /// kInvalidArgument if the model has other parameters; shows the first difference.
  [[nodiscard]] Status check_model(const ParameterTable& table) const;
  /// Whether the files are as long as the manifest says. For readers that allocate memory for all
  /// data.
  [[nodiscard]] Status check_files() const;
  /// Reads elements of a parameter from `begin` on; those in gaps are 0. kWrongData names a file
  /// that is damaged or too short.
  Status read(std::string_view kind, ParameterId parameter, std::uint64_t begin,
              std::span<float> into) const;

 private:
  Checkpoint(std::filesystem::path folder, Manifest manifest)
      : folder_(std::move(folder)), manifest_(std::move(manifest)) {}
  std::filesystem::path folder_;
  Manifest manifest_;
};

}  // namespace tutti::training
