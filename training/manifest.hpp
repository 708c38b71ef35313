// What a checkpoint contains: a value, and the JSON text of its manifest.json.
//
// Tensors are addressed by kind ("parameter", "first", "second" ...), name, and a range of the
// flattened tensor. Readers intersect ranges, so any number of ranks can read what any other number
// wrote.
//
//   {"format": "tutti-checkpoint", "version": 1, "step": 50,
//    "counters": {"samples": 12800},
//    "parameters": [{"name": "in", "shape": [20, 3], "decays": true}],
//    "pieces": [{"kind": "parameter", "name": "in", "begin": 0, "count": 60,
//                "file": "rank_0.bin", "offset": 0, "crc32c": 305419896}]}
//
// Files hold float32, little-endian. Offsets are in bytes.
//
// Every element of a kind is there once. Of kinds that may_have_gaps(), what is not there is 0.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "training/parameters.hpp"
#include "tutti/error.hpp"

namespace tutti::training {

/// A part of a tensor in a file. Value.
struct StoredPiece {
  std::string kind;
  ParameterId parameter = 0;
  std::uint64_t begin = 0, count = 0;  ///< elements
  std::string file;                    ///< in the checkpoint's folder
  std::uint64_t offset = 0;            ///< bytes
  std::uint32_t crc = 0;
  friend bool operator==(const StoredPiece&, const StoredPiece&) = default;
};

/// Value.
struct Manifest {
  std::uint64_t step = 0;
  std::map<std::string, std::uint64_t> counters;  ///< the program's: samples seen, seeds ...
  std::vector<Parameter> parameters;
  std::vector<StoredPiece> pieces;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// Whether elements of such a kind may be missing: what ranks keep for later steps ("owed_3_1f",
/// "velocity_3"), which is mostly 0, and PowerSGD's "factor_2", which is shorter than its
/// parameter.
bool may_have_gaps(std::string_view kind);

std::string manifest_json(const Manifest& manifest);
/// Accepts untrusted text. kWrongData says what is wrong and where: not a manifest, another
/// version, a file name that leads elsewhere, elements of a parameter that are missing or
/// duplicated in a kind.
Result<Manifest> parse_manifest(std::string_view json);

/// The pieces of a manifest that one rank contributes.
std::string pieces_json(const std::vector<StoredPiece>& pieces, const ParameterTable& table);
Result<std::vector<StoredPiece>> parse_pieces(std::string_view json, const ParameterTable& table);

}  // namespace tutti::training
