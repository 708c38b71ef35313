#include "transports/collnet/join_message.hpp"

#include <algorithm>
#include <string_view>

#include "src/base/bytes.hpp"
#include "src/base/printable.hpp"
#include "src/base/result.hpp"

namespace tutti::collnet {
namespace {

void put_text(ByteWriter& writer, std::string_view text) {
  writer.sized(as_bytes(text.substr(0, kLongestText)));
}
std::string get_text(ByteReader& reader) {
  return without_controls(reader.text(kLongestText)).substr(0, kLongestText);
}

Error malformed(std::span<const std::byte> bytes) {
  return make_error(Code::kPeerFailed, "a malformed message of {} bytes about groups of a plugin",
                    bytes.size());
}

}  // namespace

Blob encode(const Arrival& arrival) {
  Blob message;
  ByteWriter writer(message);
  put_text(writer, arrival.refusal);
  put_text(writer, arrival.plugin);
  writer.put(static_cast<std::uint32_t>(arrival.seats.size()));
  for (const Seat& seat : arrival.seats) {
    writer.bytes(seat.handle);
    writer.sized(as_bytes(seat.watch ? to_text(seat.watch) : ""));
  }
  return message;
}

Result<Arrival> decode_arrival(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Arrival arrival;
  arrival.refusal = get_text(reader);
  arrival.plugin = get_text(reader);
  const auto seats = reader.get<std::uint32_t>();
  if (seats > kMostSeats) return malformed(bytes);
  for (std::uint32_t i = 0; i < seats && reader.ok(); ++i) {
    Seat seat;
    std::ranges::copy(reader.bytes(seat.handle.size()), seat.handle.begin());
    const std::string address = reader.text(kLongestText);
    if (!address.empty()) {
      TUTTI_ASSIGN(seat.watch, parse_address(address));
    }
    arrival.seats.push_back(seat);
  }
  if (!reader.complete()) return malformed(bytes);
  return arrival;
}

Blob encode(const Terms& terms) {
  Blob message;
  ByteWriter writer(message);
  put_text(writer, terms.refusal);
  writer.bytes(encode(terms.abilities)).put(terms.most_bytes);
  writer.put(static_cast<std::uint8_t>(terms.scatters ? 1 : 0));
  return message;
}

Result<Terms> decode_terms(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Terms terms;
  terms.refusal = get_text(reader);
  TUTTI_ASSIGN(terms.abilities, decode_tree_abilities(reader.bytes(kTreeAbilitiesBytes)));
  terms.most_bytes = reader.get<std::uint64_t>();
  const auto scatters = reader.get<std::uint8_t>();
  terms.scatters = scatters == 1;
  if (!reader.complete() || scatters > 1) return malformed(bytes);
  return terms;
}

}  // namespace tutti::collnet
