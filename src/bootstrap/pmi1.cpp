#include "src/bootstrap/pmi1.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <optional>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "src/base/bytes.hpp"
#include "src/base/result.hpp"
#include "src/wire/net.hpp"

namespace tutti {
namespace {

constexpr std::size_t kMaxLine = 4096;

/// The value of `key` in "cmd=... key=value ..."; nothing when it is not there.
std::optional<std::string> field(std::string_view line, std::string_view key) {
  while (!line.empty()) {
    const auto end = std::min(line.find(' '), line.size());
    const auto word = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    if (word.size() > key.size() && word.starts_with(key) && word[key.size()] == '=') {
      return std::string(word.substr(key.size() + 1));
    }
  }
  return std::nullopt;
}

Result<int> to_int(std::string_view name, const std::optional<std::string>& text) {
  int value = 0;
  if (text) {
    const char* end = text->data() + text->size();
    const auto [at, error] = std::from_chars(text->data(), end, value);
    if (error == std::errc{} && at == end && value >= 0) return value;
  }
  return make_error(Code::kPeerFailed, "the PMI launcher gave no number for {}: \"{}\"", name,
                    text.value_or(""));
}

}  // namespace

Result<Pmi1> Pmi1::connect(const Environment& environment, Deadline deadline) {
  if (const auto fd_text = environment("PMI_FD")) {
    TUTTI_ASSIGN(const int fd, to_int("PMI_FD", fd_text));
    TUTTI_ASSIGN(const int rank, to_int("PMI_RANK", environment("PMI_RANK")));
    TUTTI_ASSIGN(const int size, to_int("PMI_SIZE", environment("PMI_SIZE")));
    const int own = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (own < 0) {
      return system_error(
          Code::kInvalidUsage, errno,
          fmt::format("PMI_FD={} is not an open descriptor (was this process started "
                      "by the launcher itself?)",
                      fd));
    }
    return start(Fd(own), rank, size, deadline);
  }
  const std::string where = environment("PMI_PORT").value_or("");
  const auto colon = where.rfind(':');
  if (colon == std::string::npos) {
    return make_error(Code::kInvalidUsage, "PMI_PORT=\"{}\" is not host:port", where);
  }
  TUTTI_ASSIGN(const int port, to_int("PMI_PORT", where.substr(colon + 1)));
  TUTTI_ASSIGN(const int id, to_int("PMI_ID", environment("PMI_ID")));
  TUTTI_ASSIGN(const auto address,
               resolve(where.substr(0, colon), static_cast<std::uint16_t>(port)));
  TUTTI_ASSIGN(Fd fd, connect_to(address, deadline));
  Pmi1 client(std::move(fd), 0, 0);
  TUTTI_TRY(client.ask(fmt::format("cmd=initack pmiid={}", id), "initack", deadline));
  for (const char* name : {"size", "rank", "debug"}) {
    TUTTI_ASSIGN(const auto line, client.read_line(deadline));
    if (std::string_view(name) == "debug") break;
    TUTTI_ASSIGN(const int value, to_int(name, field(line, name)));
    (std::string_view(name) == "size" ? client.size_ : client.rank_) = value;
  }
  TUTTI_TRY(client.greet(deadline));
  return client;
}

Result<Pmi1> Pmi1::start(Fd fd, Rank rank, std::int32_t size, Deadline deadline) {
  Pmi1 client(std::move(fd), rank, size);
  TUTTI_TRY(client.greet(deadline));
  return client;
}

Status Pmi1::greet(Deadline deadline) {
  if (size_ < 1 || rank_ < 0 || rank_ >= size_) {
    return make_error(Code::kPeerFailed, "the PMI launcher says rank {} of {}", rank_, size_);
  }
  TUTTI_TRY(ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", deadline));
  TUTTI_ASSIGN(const auto line, ask("cmd=get_my_kvsname", "my_kvsname", deadline));
  space_ = field(line, "kvsname").value_or("");
  if (space_.empty()) return make_error(Code::kPeerFailed, "the PMI launcher named no key space");
  return ok_status();
}

Status Pmi1::put(std::string_view key, std::string_view value, Deadline deadline) {
  TUTTI_TRY(ask(fmt::format("cmd=put kvsname={} key={} value={}", space_, key, value), "put_result",
                deadline));
  return ok_status();
}

Status Pmi1::barrier(Deadline deadline) {
  auto line = ask("cmd=barrier_in", "barrier_out", deadline);
  if (line) return ok_status();
  Error error = std::move(line).error();
  if (error.code == Code::kTimeout) {
    error.what = fmt::format("the barrier of PMI timed out: not all of {} ranks came", size_);
  }
  return error;
}

Result<std::string> Pmi1::get(std::string_view key, Deadline deadline) {
  TUTTI_ASSIGN(const auto line,
               ask(fmt::format("cmd=get kvsname={} key={}", space_, key), "get_result", deadline));
  const auto value = field(line, "value");
  if (!value) return make_error(Code::kPeerFailed, "PMI holds no value for {}", key);
  return *value;
}

Status Pmi1::finish(Deadline deadline) {
  TUTTI_TRY(ask("cmd=finalize", "finalize_ack", deadline));
  return ok_status();
}

Result<std::string> Pmi1::ask(std::string_view line, std::string_view answer, Deadline deadline) {
  const std::string out = std::string(line) + "\n";
  // The descriptor may be a pipe or a socket; a launcher always reads such short lines.
  if (::write(fd_.get(), out.data(), out.size()) != static_cast<ssize_t>(out.size())) {
    return system_error(Code::kPeerFailed, errno, "cannot write to the PMI launcher");
  }
  TUTTI_ASSIGN(auto reply, read_line(deadline));
  const auto rc = field(reply, "rc");
  if (field(reply, "cmd") != answer || (rc && *rc != "0")) {
    return make_error(Code::kPeerFailed, "the PMI launcher answered \"{}\" to \"{}\"", reply,
                      line.substr(0, line.find(" value=")));
  }
  return reply;
}

Result<std::string> Pmi1::read_line(Deadline deadline) {
  for (;;) {
    if (const auto end = input_.find('\n'); end != std::string::npos) {
      std::string line = input_.substr(0, end);
      input_.erase(0, end + 1);
      return line;
    }
    if (input_.size() > kMaxLine) {
      return make_error(Code::kPeerFailed, "the PMI launcher sent an endless line");
    }
    pollfd entry{fd_.get(), POLLIN, 0};
    const int ready = ::poll(&entry, 1, deadline.poll_ms(60'000));
    if (ready == 0 && deadline.passed()) {
      return make_error(Code::kTimeout, "the PMI launcher did not answer in time");
    }
    if (ready <= 0) continue;
    std::array<char, 1024> buffer;
    const ssize_t n = ::read(fd_.get(), buffer.data(), buffer.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return make_error(Code::kPeerFailed, "the PMI launcher closed the connection");
    input_.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

}  // namespace tutti
