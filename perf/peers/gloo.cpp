// The loop over Gloo: TCP on the loopback interface, a file store for the rendezvous.
#include <memory>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "perf/peers/loop.hpp"

namespace {

class Gloo {
 public:
  Gloo() {
    gloo::transport::tcp::attr attributes;
    attributes.iface = "lo";
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(peers::need("PEERS_STORE"));
    auto context = std::make_shared<gloo::rendezvous::Context>(
        std::atoi(peers::need("RANK")), std::atoi(peers::need("WORLD_SIZE")));
    context->connectFullMesh(store, device);
    context_ = context;
  }

  [[nodiscard]] int rank() const { return context_->rank; }
  [[nodiscard]] int ranks() const { return context_->size; }

  void run(const std::string& collective, peers::Message& message) {
    if (collective == "all_reduce") {
      all_reduce(message);
    } else if (collective == "all_gather") {
      gloo::AllgatherOptions options(context_);
      give_both(options, message);
      gloo::allgather(options);
    } else if (collective == "reduce_scatter") {
      reduce_scatter(message);
    } else if (collective == "broadcast") {
      gloo::BroadcastOptions options(context_);
      options.setOutput(message.recv.data(), message.recv.size());
      options.setRoot(0);
      gloo::broadcast(options);
    } else if (collective == "all_to_all") {
      gloo::AlltoallOptions options(context_);
      give_both(options, message);
      gloo::alltoall(options);
    } else {
      peers::die("unknown collective " + collective);
    }
  }

 private:
  template <class Options>
  static void give_both(Options& options, peers::Message& message) {
    options.setInput(message.send.data(), message.send.size());
    options.setOutput(message.recv.data(), message.recv.size());
  }

  void all_reduce(peers::Message& message) {
    gloo::AllreduceOptions options(context_);
    give_both(options, message);
    options.setReduceFunction([](void* out, const void* a, const void* b, std::size_t n) {
      gloo::sum<float>(out, a, b, n);
    });
    gloo::allreduce(options);
  }

  /// Gloo's only reduce-scatter works in place and is built for one buffer, so it stays while the
  /// buffer does. It destroys its input: the copy that keeps the loop's send buffer, and the one
  /// that puts the result where the others put it, are in the time.
  void reduce_scatter(peers::Message& message) {
    if (!reduce_scatter_ || scratch_.size() != message.send.size()) {
      scratch_.assign(message.send.size(), 0);
      std::vector<int> counts(static_cast<std::size_t>(ranks()), static_cast<int>(message.count));
      reduce_scatter_ = std::make_unique<gloo::ReduceScatterHalvingDoubling<float>>(
          context_, std::vector<float*>{scratch_.data()}, static_cast<int>(scratch_.size()),
          counts);
    }
    std::copy(message.send.begin(), message.send.end(), scratch_.begin());
    reduce_scatter_->run();
    std::copy_n(scratch_.begin(), message.count, message.recv.begin());
  }

  std::shared_ptr<gloo::Context> context_;
  std::vector<float> scratch_;
  std::unique_ptr<gloo::ReduceScatterHalvingDoubling<float>> reduce_scatter_;
};

}  // namespace

int main(int argc, char** argv) {
  Gloo gloo;
  peers::Loop(gloo, peers::parse(argc, argv)).run();
}
