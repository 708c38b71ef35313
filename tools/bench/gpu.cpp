#include "tools/bench/gpu.hpp"

#include <cstdlib>
#include <utility>

#include "src/base/result.hpp"

namespace tutti::bench {
namespace {

/// Which of its host's processes this one is; 0 where no launcher says so.
int place_on_host() {
  for (const char* name :
       {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
    if (const char* const value = std::getenv(name)) return std::max(0, std::atoi(value));
  return 0;
}

}  // namespace

std::vector<int> gpus_of(int first, int ranks, int ranks_of_process, int gpus) {
  std::vector<int> devices;
  const int before = place_on_host() * ranks_of_process + first;
  for (int i = 0; i < ranks; ++i) devices.push_back((before + i) % gpus);
  return devices;
}

Result<Gpus> Gpus::open(cuda::SharedDriver driver, std::vector<int> devices) {
  Gpus gpus(std::move(driver), std::move(devices));
  for (const int device : gpus.devices_) {
    TUTTI_ASSIGN(cuda::OwnedStream stream, cuda::OwnedStream::create(gpus.driver_, device));
    gpus.streams_.push_back(std::move(stream));
  }
  return gpus;
}

Status Gpus::upload(std::size_t i, std::byte* to, std::span<const std::byte> from) const {
  TUTTI_ASSIGN(const auto scope, use(i));
  TUTTI_TRY(driver_->copy_async(to, from.data(), from.size(), stream(i)));
  return driver_->synchronize(stream(i));
}

Status Gpus::download(std::size_t i, std::span<std::byte> to, const std::byte* from) const {
  TUTTI_ASSIGN(const auto scope, use(i));
  TUTTI_TRY(driver_->copy_async(to.data(), from, to.size(), stream(i)));
  return driver_->synchronize(stream(i));
}

Status Gpus::synchronize() const {
  for (std::size_t i = 0; i < ranks(); ++i) {
    TUTTI_ASSIGN(const auto scope, use(i));
    TUTTI_TRY(driver_->synchronize(stream(i)));
  }
  return ok_status();
}

}  // namespace tutti::bench
