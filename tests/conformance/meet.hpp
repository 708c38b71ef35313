// Two transports of one process connected with each other.
#pragma once

#include <memory>
#include <string>

#include "src/wire/crypto.hpp"
#include "tests/conformance/connected_pair.hpp"

namespace tutti::testing {

/// The key of all tests.
Key test_key();
std::shared_ptr<Transport> tcp_transport(std::uint64_t token);
/// Its connections take three sockets each.
std::shared_ptr<Transport> striped_tcp_transport(std::uint64_t token);
std::shared_ptr<Transport> shm_transport(std::uint64_t token);
/// By a mock of NCCL's network plugins of version 11, and a hostile one of version 6.
std::shared_ptr<Transport> nccl_net_transport(std::uint64_t token);
std::shared_ptr<Transport> hostile_nccl_net_transport(std::uint64_t token);
#if TUTTI_HAVE_IBVERBS
/// On the verbs library in memory: this process has one host's devices, its children another's.
std::shared_ptr<Transport> verbs_transport(std::uint64_t token);
#endif
#if TUTTI_HAVE_UCX
/// By UCX's TCP, and by its shared memory.
std::shared_ptr<Transport> ucx_transport(std::uint64_t token);
std::shared_ptr<Transport> ucx_shm_transport(std::uint64_t token);
/// Why there is no UCX here; empty where there is one.
const std::string& missing_ucx();
#endif

/// `a` is rank 0 with token 1, `b` rank 1 with token 2.
ConnectedPair meet(std::shared_ptr<Transport> a, std::shared_ptr<Transport> b);

}  // namespace tutti::testing
