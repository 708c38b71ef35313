#include "tools/bench/crew.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <unistd.h>

#include "src/base/result.hpp"
#include "tools/bench/data.hpp"
#include "tutti/tutti.h"

namespace tutti::bench {
namespace {

Code code_of(ncclResult_t result) {
  switch (result) {
    case ncclInvalidArgument:
      return Code::kInvalidArgument;
    case ncclInvalidUsage:
      return Code::kInvalidUsage;
    case ncclUnhandledCudaError:
      return Code::kDevice;
    case ncclSystemError:
      return Code::kUnavailable;
    case ncclRemoteError:
      return Code::kPeerFailed;
    default:
      return Code::kInternal;
  }
}

Status to_status(ncclResult_t result, ncclComm_t comm, std::string_view what) {
  if (result == ncclSuccess) return ok_status();
  std::string_view text = ncclGetLastError(comm);
  if (text.empty() && comm != nullptr) text = ncclGetLastError(nullptr);
  return make_error(code_of(result), "{}: {}", what,
                    text.empty() ? ncclGetErrorString(result) : text);
}

ncclDataType_t nccl_type(DataType type) { return static_cast<ncclDataType_t>(type); }

/// A scalar for ncclRedOpCreatePreMulSum: one element of `type`.
Bits scalar_bits(DataType type, int value) {
  return is_float(type) ? encode(type, value).value_or(0) : static_cast<Bits>(value);
}

/// A member as bytes of fixed size, to be gathered.
struct MemberCard {
  std::int32_t process;
  char host[64];
  char processor[64];
  std::int32_t gpu;
};

template <std::size_t N>
void put_text(char (&field)[N], const std::string& text) {
  std::strncpy(field, text.c_str(), N - 1);
  field[N - 1] = 0;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return "CPU";
}

MemberCard own_card() {
  MemberCard card{};
  card.process = ::getpid();
  std::array<char, 64> host{};
  ::gethostname(host.data(), host.size() - 1);
  put_text(card.host, host.data());
  put_text(card.processor, processor_name());
  card.gpu = -1;
  return card;
}

/// The GPUs of the ranks `first`.. of this process; none where buffers are the host's.
Result<std::optional<Gpus>> open_gpus(const Options& options, int first, int ranks) {
  if (!options.on_gpus) return std::optional<Gpus>();
  TUTTI_ASSIGN(auto driver, cuda::Driver::open());
  const std::vector<int> devices =
      gpus_of(first, ranks, options.ranks_per_process(), driver->device_count());
  TUTTI_ASSIGN(Gpus gpus, Gpus::open(std::move(driver), devices));
  return std::optional(std::move(gpus));
}

std::vector<std::string> split_names(std::string_view names) {
  std::vector<std::string> parts;
  while (!names.empty()) {
    const auto comma = std::min(names.find(','), names.size());
    parts.emplace_back(names.substr(0, comma));
    names.remove_prefix(std::min(comma + 1, names.size()));
  }
  return parts;
}

}  // namespace

Result<Meeting> meet(const Options& options, bool launched) {
  Meeting meeting;
  if (launched) {
    TUTTI_ASSIGN(const auto gpus, open_gpus(options, 0, 1));
    std::optional<cuda::ContextScope> scope;
    if (gpus) {
      TUTTI_ASSIGN(cuda::ContextScope first, gpus->use(0));
      scope.emplace(std::move(first));
    }
    ncclComm_t world = nullptr;
    TUTTI_TRY(
        to_status(tuttiCommInitFromEnvironment(&world, nullptr, 0), nullptr, "joining the job"));
    meeting.world.reset(world);
    TUTTI_TRY(
        to_status(ncclCommCount(world, &meeting.processes), world, "asking for the job's size"));
    TUTTI_TRY(to_status(ncclCommUserRank(world, &meeting.process), world, "asking for the rank"));
    if (options.ranks_per_process() == 1) return meeting;
  }
  if (meeting.process == 0) {
    TUTTI_TRY(to_status(ncclGetUniqueId(&meeting.id), nullptr, "making a unique id"));
  }
  if (meeting.world) {
    ncclComm_t world = meeting.world.get();
    TUTTI_TRY(to_status(
        ncclBroadcast(&meeting.id, &meeting.id, sizeof meeting.id, ncclUint8, 0, world, nullptr),
        world, "spreading the unique id"));
  }
  return meeting;
}

Crew::Crew(std::vector<CommHandle> comms, std::vector<Rank> ranks, Rank job_size,
           std::optional<Gpus> gpus)
    : gpus_(std::move(gpus)),
      comms_(std::move(comms)),
      ranks_(std::move(ranks)),
      job_size_(job_size) {}

Crew::Crew(Crew&&) noexcept = default;

Crew::~Crew() {
  if (comms_.empty()) return;
  drop_operators();
  for (const Registration& registration : registrations_) {
    ncclCommDeregister(registration.comm, registration.handle);
  }
  // Inside a group, so that ranks of one thread can say goodbye to each other.
  ncclGroupStart();
  comms_.clear();
  ncclGroupEnd();
}

Result<Crew> Crew::join(Meeting& meeting, const Options& options, int thread) {
  const int per_process = options.ranks_per_process();
  TUTTI_ASSIGN(auto gpus,
               open_gpus(options, thread * options.ranks_per_thread, options.ranks_per_thread));
  if (meeting.world && per_process == 1) {
    std::vector<CommHandle> comms;
    comms.push_back(std::move(meeting.world));
    return Crew(std::move(comms), {meeting.process}, meeting.processes, std::move(gpus));
  }
  const int job_size = meeting.processes * per_process;
  const Rank first = meeting.process * per_process + thread * options.ranks_per_thread;
  std::vector<Rank> ranks;
  std::vector<ncclComm_t> comms(static_cast<std::size_t>(options.ranks_per_thread), nullptr);
  ncclResult_t result = ncclGroupStart();
  for (ncclComm_t& comm : comms) {
    ranks.push_back(first + static_cast<Rank>(ranks.size()));
    if (result != ncclSuccess) continue;
    std::optional<Result<cuda::ContextScope>> scope;
    if (gpus) scope.emplace(gpus->use(ranks.size() - 1));
    result = ncclCommInitRank(&comm, job_size, meeting.id, ranks.back());
  }
  const ncclResult_t end = ncclGroupEnd();
  std::vector<CommHandle> handles;
  for (ncclComm_t comm : comms) handles.emplace_back(comm);
  TUTTI_TRY(to_status(result == ncclSuccess ? end : result, nullptr, "joining the communicator"));
  return Crew(std::move(handles), std::move(ranks), job_size, std::move(gpus));
}

Status Crew::checked(ncclResult_t result, std::string_view what) const {
  if (result == ncclSuccess) return ok_status();
  for (const CommHandle& comm : comms_) {
    const std::string_view known = ncclGetLastError(comm.get());
    if (!known.empty()) return to_status(result, comm.get(), what);
  }
  return to_status(result, comms_.front().get(), what);
}

template <class Body>
Status Crew::in_group(std::string_view what, Body body) {
  if (comms_.size() == 1) return checked(body(std::size_t{0}), what);
  ncclResult_t result = ncclGroupStart();
  for (std::size_t i = 0; i < comms_.size() && result == ncclSuccess; ++i) result = body(i);
  const ncclResult_t end = ncclGroupEnd();
  return checked(result == ncclSuccess ? end : result, what);
}

Status Crew::combine(std::span<double> values, ncclRedOp_t op) {
  std::vector<std::vector<double>> copies(comms_.size(), {values.begin(), values.end()});
  // A sum counts a crew once: its other ranks bring zeros.
  for (std::size_t i = 1; i < copies.size() && op == ncclSum; ++i) {
    copies[i].assign(values.size(), 0);
  }
  TUTTI_TRY(in_group("exchanging measurements", [&](std::size_t i) {
    return ncclAllReduce(copies[i].data(), copies[i].data(), values.size(), ncclFloat64, op,
                         comms_[i].get(), nullptr);
  }));
  std::ranges::copy(copies[0], values.begin());
  return ok_status();
}

Status Crew::largest(std::span<double> values) { return combine(values, ncclMax); }
Status Crew::sum(std::span<double> values) { return combine(values, ncclSum); }

Status Crew::barrier() {
  double nothing[1] = {0};
  return largest(nothing);
}

Result<Job> Crew::describe() {
  const auto n = static_cast<std::size_t>(job_size_);
  std::vector<MemberCard> mine(comms_.size(), own_card());
  for (std::size_t i = 0; gpus_ && i < mine.size(); ++i) {
    TUTTI_ASSIGN(const cuda::DeviceFacts gpu, gpus_->facts(i));
    mine[i].gpu = gpu.ordinal;
    put_text(mine[i].processor, gpu.name);
  }
  std::vector<std::vector<MemberCard>> all(comms_.size(), std::vector<MemberCard>(n));
  TUTTI_TRY(in_group("gathering the job's members", [&](std::size_t i) {
    return ncclAllGather(&mine[i], all[i].data(), sizeof(MemberCard), ncclUint8, comms_[i].get(),
                         nullptr);
  }));
  Job job;
  job.ranks = job_size_;
  job.tutti_version = tuttiVersion();
  job.nccl_headers = NCCL_VERSION_CODE;
  TUTTI_TRY(checked(ncclGetVersion(&job.nccl_version), "asking for the version"));
  TUTTI_TRY(checked(tuttiCommHosts(comms_[0].get(), &job.hosts), "asking for the hosts"));
  std::array<char, 256> transports{};
  TUTTI_TRY(checked(tuttiCommTransports(comms_[0].get(), transports.data(), transports.size()),
                    "asking for the transports"));
  job.transports = split_names(transports.data());
  for (std::size_t rank = 0; rank < n; ++rank) {
    const MemberCard& card = all[0][rank];
    job.members.push_back(
        {static_cast<Rank>(rank), card.process, card.host, card.processor, card.gpu});
  }
  return job;
}

void Crew::drop_operators() {
  for (std::size_t i = 0; i < operators_.size() && operators_are_made_; ++i) {
    ncclRedOpDestroy(operators_[i], comms_[i].get());
  }
  operators_.clear();
  operators_are_made_ = false;
}

Status Crew::use_operator(const Shape& shape) {
  drop_operators();
  operators_.assign(comms_.size(), static_cast<ncclRedOp_t>(shape.op));
  if (shape.op != ReduceOp::kPreMulSum) return ok_status();
  for (std::size_t i = 0; i < comms_.size(); ++i) {
    Bits scalar = scalar_bits(shape.type, mulsum_factor(ranks_[i]));
    TUTTI_TRY(checked(ncclRedOpCreatePreMulSum(&operators_[i], &scalar, nccl_type(shape.type),
                                               ncclScalarHostImmediate, comms_[i].get()),
                      "making the mulsum operator"));
  }
  operators_are_made_ = true;
  return ok_status();
}

namespace {

ncclResult_t send_and_receive(const Shape& shape, Rank rank, const Pointers& pointers,
                              ncclComm_t comm, cudaStream_t stream) {
  const Rank next = (rank + 1) % shape.ranks;
  const Rank previous = (rank + shape.ranks - 1) % shape.ranks;
  ncclResult_t result = ncclGroupStart();
  if (result == ncclSuccess) {
    result = ncclSend(pointers.send, shape.count, nccl_type(shape.type), next, comm, stream);
  }
  if (result == ncclSuccess) {
    result = ncclRecv(pointers.recv, shape.count, nccl_type(shape.type), previous, comm, stream);
  }
  const ncclResult_t end = ncclGroupEnd();
  return result == ncclSuccess ? end : result;
}

ncclResult_t call(const Shape& shape, Rank rank, const Pointers& at, ncclRedOp_t op,
                  ncclComm_t comm, cudaStream_t stream) {
  const ncclDataType_t type = nccl_type(shape.type);
  const std::size_t count = shape.count;
  switch (shape.test) {
    case Collective::kAllReduce:
      return ncclAllReduce(at.send, at.recv, count, type, op, comm, stream);
    case Collective::kAllGather:
      return ncclAllGather(at.send, at.recv, count, type, comm, stream);
    case Collective::kReduceScatter:
      return ncclReduceScatter(at.send, at.recv, count, type, op, comm, stream);
    case Collective::kBroadcast:
      return ncclBroadcast(at.send, at.recv, count, type, shape.root, comm, stream);
    case Collective::kReduce:
      return ncclReduce(at.send, at.recv, count, type, op, shape.root, comm, stream);
    case Collective::kAllToAll:
      return ncclAlltoAll(at.send, at.recv, count, type, comm, stream);
    case Collective::kGather:
      return ncclGather(at.send, at.recv, count, type, shape.root, comm, stream);
    case Collective::kScatter:
      return ncclScatter(at.send, at.recv, count, type, shape.root, comm, stream);
    case Collective::kSend:
    case Collective::kRecv:
      return send_and_receive(shape, rank, at, comm, stream);
  }
  return ncclInvalidArgument;
}

}  // namespace

Status Crew::run(const Shape& shape, std::span<const Pointers> pointers, int times) {
  const auto call_of = [&](std::size_t i) {
    return call(shape, ranks_[i], pointers[i], operators_[i], comms_[i].get(), stream(i));
  };
  const std::string_view what = test_name(shape.test);
  if (times == 1) return in_group(what, call_of);
  ncclResult_t result = ncclGroupStart();
  for (int k = 0; k < times; ++k) {
    for (std::size_t i = 0; i < comms_.size() && result == ncclSuccess; ++i) result = call_of(i);
  }
  const ncclResult_t end = ncclGroupEnd();
  return checked(result == ncclSuccess ? end : result, what);
}

Status Crew::synchronize() {
  if (!gpus_) return ok_status();
  TUTTI_TRY(gpus_->synchronize());
  for (const CommHandle& comm : comms_) {
    ncclResult_t state = ncclSuccess;
    TUTTI_TRY(checked(ncclCommGetAsyncError(comm.get(), &state), "asking for errors"));
    TUTTI_TRY(checked(state, "a call that was enqueued"));
  }
  return ok_status();
}

std::string Crew::algorithm(const Shape& shape) const {
  std::array<char, 64> name{};
  const Rank root = shape.test == kSendRecv ? (ranks_[0] + 1) % shape.ranks : shape.root;
  const ncclResult_t result =
      tuttiCommAlgorithm(comms_[0].get(), static_cast<tuttiCollective_t>(shape.test), shape.count,
                         nccl_type(shape.type), operators_[0], root, name.data(), name.size());
  return result == ncclSuccess ? name.data() : "";
}

Status Crew::set_algorithm(Collective test, const std::string& name, int kernel_reads) {
  for (const CommHandle& comm : comms_)
    TUTTI_TRY(checked(tuttiCommSetAlgorithm(comm.get(), static_cast<tuttiCollective_t>(test),
                                            name.c_str(), kernel_reads),
                      "asking for an algorithm"));
  return ok_status();
}

Result<Crew::Placement> Crew::placement() const {
  Placement placement;
  placement.host.resize(static_cast<std::size_t>(job_size_));
  TUTTI_TRY(checked(tuttiCommPlacement(comms_[0].get(), placement.host.data(), &placement.topology),
                    "asking for the placement"));
  return placement;
}

Status Crew::register_buffer(std::size_t i, void* data, std::size_t bytes) {
  void* handle = nullptr;
  TUTTI_TRY(
      checked(ncclCommRegister(comms_[i].get(), data, bytes, &handle), "registering a buffer"));
  registrations_.push_back({comms_[i].get(), handle});
  return ok_status();
}

void Crew::abort() {
  registrations_.clear();
  operators_.clear();
  for (CommHandle& comm : comms_) ncclCommAbort(comm.release());
  comms_.clear();
}

void Buffer::Free::operator()(std::byte* pointer) const {
  if (memory == Memory::kAlloc) {
    ncclMemFree(pointer);
  } else {
    std::free(pointer);  // NOLINT(*-no-malloc): pairs with aligned_alloc
  }
}

Result<Buffer> Buffer::allocate(std::size_t bytes, Memory memory) {
  const std::size_t pages = (bytes + kGuardBytes + kFront - 1) / kFront * kFront;
  const std::size_t size = kFront + pages;
  void* pointer = nullptr;
  if (memory == Memory::kAlloc) {
    TUTTI_TRY(to_status(ncclMemAlloc(&pointer, size), nullptr, "allocating a buffer"));
  } else {
    pointer = std::aligned_alloc(kFront, size);
  }
  if (pointer == nullptr) {
    return make_error(Code::kUnavailable,
                      "no memory for a buffer of {}: lower -e, or start fewer ranks",
                      tools::size_text(bytes));
  }
  std::memset(pointer, 0, size);  // touch every page here, not in a timed call
  return Buffer({static_cast<std::byte*>(pointer), Free{memory}}, size);
}

}  // namespace tutti::bench
