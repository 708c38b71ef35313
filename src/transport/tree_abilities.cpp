#include "src/transport/tree_abilities.hpp"

#include <algorithm>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"

namespace tutti {
namespace {

constexpr int kTreeForms = static_cast<int>(TreeForm::kFromAll) + 1;

/// Calls `visit` with each type and operator.
template <class Visit>
void for_each_reduction(const Visit& visit) {
  for (int type = 0; type < kDataTypes; ++type)
    for (int op = 0; op < kReduceOps; ++op)
      visit(static_cast<DataType>(type), static_cast<ReduceOp>(op));
}

template <class Visit>
void for_each_form(const Visit& visit) {
  for (int form = 0; form < kTreeForms; ++form) visit(static_cast<TreeForm>(form));
}

}  // namespace

TreeAbilities TreeAbilities::all() {
  TreeAbilities all;
  for_each_reduction([&](DataType type, ReduceOp op) { all.add(type, op); });
  for_each_form([&](TreeForm form) { all.add(form); });
  all.least_bits(8);
  return all;
}

TreeAbilities TreeAbilities::of(const AggregationTree& tree) {
  TreeAbilities its;
  for_each_reduction([&](DataType type, ReduceOp op) {
    if (tree.adds(type, op)) its.add(type, op);
  });
  for_each_form([&](TreeForm form) {
    if (tree.does(form)) its.add(form);
  });
  its.least_bits(tree.least_bits());
  return its;
}

TreeAbilities& TreeAbilities::operator&=(const TreeAbilities& other) {
  for (std::size_t type = 0; type < operators_.size(); ++type)
    operators_[type] &= other.operators_[type];
  forms_ &= other.forms_;
  least_bits_ = std::max(least_bits_, other.least_bits_);
  return *this;
}

Blob encode(const TreeAbilities& abilities) {
  Blob bytes;
  ByteWriter writer(bytes);
  for (const std::uint8_t operators : abilities.operators_) writer.put(operators);
  writer.put(abilities.forms_).put(abilities.least_bits_);
  return bytes;
}

Result<TreeAbilities> decode_tree_abilities(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  TreeAbilities read;
  for (std::uint8_t& operators : read.operators_) operators = reader.get<std::uint8_t>();
  read.forms_ = reader.get<std::uint8_t>();
  read.least_bits_ = reader.get<std::uint8_t>();
  const unsigned bits = read.least_bits();
  const TreeAbilities both = TreeAbilities(read) &= TreeAbilities::all();
  if (!reader.complete() || both != read || (bits != 8 && bits != 16 && bits != 32))
    return make_error(Code::kPeerFailed, "{} bytes are not what a tree of the network can do",
                      bytes.size());
  return read;
}

}  // namespace tutti
