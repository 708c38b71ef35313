#include "transports/cuda_p2p/cuda_p2p.hpp"

#include <utility>

#include "transports/cuda_p2p/board.hpp"
#include "transports/cuda_p2p/sharing.hpp"

namespace tutti {
namespace {

class CudaP2p final : public PeerMemoryTransport {
 public:
  CudaP2p(cuda::SharedDriver driver, CudaP2pOptions options)
      : driver_(std::move(driver)), options_(std::move(options)) {}
  Result<std::unique_ptr<PeerMemory>> share(const PeerMemoryRequest& request) override {
    return cuda_p2p::Sharing(driver_, options_, board_, request).run();
  }

 private:
  const cuda::SharedDriver driver_;
  const CudaP2pOptions options_;
  cuda_p2p::Board board_;
};

}  // namespace

std::unique_ptr<PeerMemoryTransport> make_cuda_p2p(cuda::SharedDriver driver,
                                                   CudaP2pOptions options) {
  return std::make_unique<CudaP2p>(std::move(driver), std::move(options));
}

}  // namespace tutti
