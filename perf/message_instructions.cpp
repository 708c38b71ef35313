// What perf/message_instructions counts: messages from one end of a connection to the other, both
// driven by one thread, so that every run executes the same instructions.
//
//   message_instructions TRANSPORT BYTES MESSAGES [LIBIBVERBS]
//
// TRANSPORT: tcp, shm or verbs, which needs the verbs library in memory. As many messages are sent
// uncounted before, for whatever the first ones set up.
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/wire/crypto.hpp"
#include "transports/shm/shm_transport.hpp"
#include "transports/tcp/tcp_transport.hpp"
#if TUTTI_HAVE_IBVERBS
#include "src/verbs/fake/client.hpp"
#include "transports/verbs/verbs_transport.hpp"
#endif

namespace tutti {
namespace {

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "message_instructions: %s\n", why.c_str());
  std::exit(2);
}

using Made = Result<std::shared_ptr<Transport>>;

#if TUTTI_HAVE_IBVERBS
const verbs::FakeClient& fake_library(const char* file) {
  static const verbs::FakeClient kFake(file);
  return kFake;
}
#endif

/// Lets everything arrive that is under way, so that nobody polls in vain.
void deliver([[maybe_unused]] const std::string& transport, [[maybe_unused]] const char* library) {
#if TUTTI_HAVE_IBVERBS
  if (transport == "verbs")
    while (fake_library(library).step(64) > 0) {
    }
#endif
}

Made make_verbs([[maybe_unused]] std::uint64_t token, [[maybe_unused]] const char* library) {
#if TUTTI_HAVE_IBVERBS
  const verbs::FakeClient& fake = fake_library(library);
  if (fake.live() == 0)
    fake.reset(R"({"devices": [
      {"name": "a0", "inlined": 128, "ports": [{"gids": [{"gid": "::ffff:10.0.0.1"}]}]},
      {"name": "b0", "inlined": 128, "ports": [{"gids": [{"gid": "::ffff:10.0.0.2"}]}]}]})");
  VerbsOptions options;
  options.token = token;
  options.interfaces.ifname = "lo";
  options.ports.devices = token == 1 ? "a" : "b";
  return make_verbs_transport(fake.shared(), options);
#else
  die("this build has no RDMA");
#endif
}

Made make(const std::string& name, std::uint64_t token, const char* library) {
  if (name == "verbs") return make_verbs(token, library);
  if (name == "tcp") {
    TcpOptions options;
    options.token = token;
    options.interfaces.ifname = "lo";
    return make_tcp_transport(options);
  }
  if (name != "shm") die("TRANSPORT is '" + name + "', not tcp, shm or verbs");
  auto heap = SharedHeap::create(std::size_t{64} << 20);
  if (!heap) return std::move(heap).error();
  ShmOptions options;
  options.token = token;
  return make_shm_transport(*std::move(heap), options);
}

/// Both ends, and memory that the transports know.
struct Pair {
  std::shared_ptr<Transport> transports[2];
  std::shared_ptr<Connection> from, to;
  std::vector<std::byte> out, in;
  std::shared_ptr<const void> registered[2];
};

void connect(Pair& pair, const std::string& name, const char* library) {
  for (unsigned i = 0; i < 2; ++i) {
    auto made = make(name, i + 1, library);
    if (!made) die(made.error().what);
    pair.transports[i] = *std::move(made);
  }
  const Deadline deadline = Deadline::after(std::chrono::seconds(30));
  const auto end = [&](unsigned own) {
    const unsigned other = 1 - own;
    return pair.transports[own]->connect({.token = other + 1,
                                          .rank = static_cast<Rank>(other),
                                          .address = pair.transports[other]->address()},
                                         Key{}, deadline);
  };
  auto answered = std::async(std::launch::async, end, 1);
  auto dialled = end(0);
  auto accepted = answered.get();
  if (!dialled) die(dialled.error().what);
  if (!accepted) die(accepted.error().what);
  pair.from = *std::move(dialled);
  pair.to = *std::move(accepted);
  std::vector<std::byte>* const memory[2] = {&pair.out, &pair.in};
  for (unsigned i = 0; i < 2; ++i) {
    auto registered = pair.transports[i]->register_memory(*memory[i]);
    if (!registered) die(registered.error().what);
    pair.registered[i] = *std::move(registered);
  }
}

MessageTag tag_of(std::size_t bytes, std::uint64_t sequence) {
  return {sequence, {Collective::kAllReduce, DataType::kInt8, ReduceOp::kSum, 0, bytes}};
}

bool is_pending(const Transfer& transfer) {
  return transfer.state.load(std::memory_order_acquire) == Transfer::State::kPending;
}

constexpr StreamId kThere{1, 0, 1, 0};

struct Message {
  Pair* pair;
  std::uint64_t sequence;
  Transfer out{};
  Transfer in{};
};

}  // namespace
}  // namespace tutti

// Callgrind counts what these do, by their names.
extern "C" {
[[gnu::noinline, gnu::used]] void sender_posts(tutti::Message* message) {
  const auto& data = message->pair->out;
  message->pair->from->send(tutti::kThere, tutti::tag_of(data.size(), message->sequence), data,
                            message->out);
}
[[gnu::noinline, gnu::used]] void receiver_posts(tutti::Message* message) {
  auto& data = message->pair->in;
  message->pair->to->recv(tutti::kThere, tutti::tag_of(data.size(), message->sequence), data,
                          message->in);
}
[[gnu::noinline, gnu::used]] bool sender_polls(tutti::Message* message) {
  return message->pair->from->progress();
}
[[gnu::noinline, gnu::used]] bool receiver_polls(tutti::Message* message) {
  return message->pair->to->progress();
}
}

int main(int argc, char** argv) {
  using namespace tutti;  // NOLINT(*-using-namespace)
  if (argc < 4) die("usage: message_instructions TRANSPORT BYTES MESSAGES [LIBIBVERBS]");
  const auto bytes = static_cast<std::size_t>(std::strtoull(argv[2], nullptr, 10));
  const auto messages = std::strtoull(argv[3], nullptr, 10);
  Pair pair;
  pair.out.assign(bytes, std::byte{1});
  pair.in.resize(bytes);
  const char* const library = argc > 4 ? argv[4] : "libibverbs.so.1";
  connect(pair, argv[1], library);
  for (std::uint64_t sequence = 0; sequence < 2 * messages; ++sequence) {
    Message message{&pair, sequence};
    receiver_posts(&message);
    receiver_polls(&message);
    sender_posts(&message);
    while (is_pending(message.in) || is_pending(message.out)) {
      deliver(argv[1], library);
      receiver_polls(&message);
      deliver(argv[1], library);
      sender_polls(&message);
    }
    if (message.in.state != Transfer::State::kDone) die(message.in.error.what);
  }
}
