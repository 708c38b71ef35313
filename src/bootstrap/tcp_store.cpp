#include "src/bootstrap/tcp_store.hpp"

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"

namespace tutti {
namespace {

enum class Query : std::uint8_t { kValidate = 0, kSet = 1, kGet = 3, kWait = 6 };
constexpr std::uint32_t kMagic = 0x3C85F7CE;
constexpr std::uint64_t kMaxValue = 4096;

void put_text(ByteWriter& out, std::string_view text) {
  out.put(static_cast<std::uint64_t>(text.size())).bytes(as_bytes(text));
}

}  // namespace

Result<TcpStore> TcpStore::connect(const SocketAddress& address, Deadline deadline) {
  TUTTI_ASSIGN(Fd fd, connect_to(address, deadline));
  Blob hello;
  ByteWriter(hello).put(to_underlying(Query::kValidate)).put(kMagic);
  TUTTI_TRY(send_all(fd.get(), hello, deadline));
  return TcpStore(std::move(fd));
}

Status TcpStore::set(std::string_view key, std::string_view value, Deadline deadline) {
  Blob request;
  ByteWriter out(request);
  out.put(to_underlying(Query::kSet));
  put_text(out, key);
  put_text(out, value);
  return send_all(fd_.get(), request, deadline);
}

Result<std::string> TcpStore::get(std::string_view key, Deadline deadline) {
  Blob wait;
  ByteWriter out(wait);
  out.put(to_underlying(Query::kWait)).put(std::uint64_t{1});
  put_text(out, key);
  TUTTI_TRY(send_all(fd_.get(), wait, deadline));
  std::byte answer{};
  if (auto came = recv_all(fd_.get(), std::span(&answer, 1), deadline); !came) {
    Error error = std::move(came).error();
    error.what =
        fmt::format("rank 0 did not publish its address in torchrun's store: {}", error.what);
    return error;
  }
  if (answer != std::byte{0}) {
    return make_error(Code::kPeerFailed, "torchrun's store gave up waiting for {}", key);
  }
  Blob get;
  ByteWriter request(get);
  request.put(to_underlying(Query::kGet));
  put_text(request, key);
  TUTTI_TRY(send_all(fd_.get(), get, deadline));
  Blob head(sizeof(std::uint64_t));
  TUTTI_TRY(recv_all(fd_.get(), head, deadline));
  const auto length = ByteReader(head).get<std::uint64_t>();
  if (length > kMaxValue) {
    return make_error(Code::kPeerFailed, "torchrun's store answered with {} bytes for {}", length,
                      key);
  }
  std::string value(length, '\0');
  TUTTI_TRY(recv_all(fd_.get(), std::as_writable_bytes(std::span(value)), deadline));
  return value;
}

}  // namespace tutti
