#include "src/base/cpus.hpp"

#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tutti {
namespace {

namespace fs = std::filesystem;

CpuShare bound_to(std::vector<std::uint64_t> mask, CpuQuota quota = {}) {
  return {std::move(mask), quota};
}

TEST(Cpus, AThreadHasAtLeastOne) {
  const CpuShare own = CpuShare::of_this_thread();
  ASSERT_FALSE(own.mask.empty());
  EXPECT_NE(own.mask.back(), 0u);
  EXPECT_GE(usable_cpus({&own, 1}), 1);
}

TEST(Cpus, ABoundThreadHasTheOneThatItIsBoundTo) {
  const CpuShare whole = CpuShare::of_this_thread();
  CpuShare bound;
  std::thread([&] {  // the binding ends with it
    const int cpu = sched_getcpu();
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    bound = CpuShare::of_this_thread();
    ASSERT_EQ(bound.mask.size(), static_cast<std::size_t>(cpu) / 64 + 1);
    EXPECT_EQ(bound.mask.back(), std::uint64_t{1} << (cpu % 64));
  })
      .join();
  EXPECT_EQ(usable_cpus({&bound, 1}), 1);
  EXPECT_EQ(bound.quota, whole.quota);
}

TEST(Cpus, OfRanksBoundToDifferentCoresAddUp) {
  const CpuShare apart[] = {bound_to({0b01}), bound_to({0b10}), bound_to({0, 0, 1})};
  EXPECT_EQ(usable_cpus(apart), 3);
}

TEST(Cpus, OfRanksThatShareAMaskCountOnce) {
  const CpuShare same[] = {bound_to({0b110}), bound_to({0b110}), bound_to({0b010})};
  EXPECT_EQ(usable_cpus(same), 2);
}

TEST(Cpus, AreNoMoreThanTheControlGroupGrants) {
  const std::vector<std::uint64_t> all = {0xff};
  const CpuShare one_group[] = {bound_to(all, {2500, 7}), bound_to(all, {2500, 7})};
  EXPECT_EQ(usable_cpus(one_group), 2);
  const CpuShare two_groups[] = {bound_to(all, {2500, 7}), bound_to(all, {2500, 8})};
  EXPECT_EQ(usable_cpus(two_groups), 5);
  const CpuShare half_limited[] = {bound_to(all, {2500, 7}), bound_to(all)};
  EXPECT_EQ(usable_cpus(half_limited), 8);
}

TEST(Cpus, AreAtLeastOneWhateverTheRanksSay) {
  EXPECT_EQ(usable_cpus({}), 1);
  const CpuShare nothing[] = {bound_to({}), bound_to({0, 0})};
  EXPECT_EQ(usable_cpus(nothing), 1);
  const CpuShare little[] = {bound_to({0b11}, {1, 7})};
  EXPECT_EQ(usable_cpus(little), 1);
  const CpuShare much[] = {bound_to({0b11}, {0xffffffff, 7}), bound_to({0b11}, {0xffffffff, 8})};
  EXPECT_EQ(usable_cpus(much), 2);
}

/// A hierarchy of control groups, removed with the scope.
struct Hierarchy {
  Hierarchy() { fs::create_directories(root / "slice/job"); }
  ~Hierarchy() { fs::remove_all(root); }
  void limit(const std::string& group, const std::string& cpu_max) const {
    std::ofstream(root / group / "cpu.max") << cpu_max << '\n';
  }
  [[nodiscard]] std::uint64_t inode(const std::string& group) const {
    struct stat status{};
    return ::stat((root / group).c_str(), &status) == 0 ? status.st_ino : 0;
  }
  fs::path root = fs::temp_directory_path() / ("tutti-cpus-" + std::to_string(getpid()));
};

TEST(Cpus, OfAControlGroupAreTheTightestLimitAboveIt) {
  const Hierarchy groups;
  EXPECT_EQ(read_cpu_quota(groups.root, "/slice/job"), CpuQuota{});
  groups.limit("slice/job", "max 100000");
  EXPECT_EQ(read_cpu_quota(groups.root, "/slice/job"), CpuQuota{});
  groups.limit("slice", "150000 100000");
  EXPECT_EQ(read_cpu_quota(groups.root, "/slice/job"), (CpuQuota{1500, groups.inode("slice")}));
  groups.limit("slice/job", "50000 100000");
  EXPECT_EQ(read_cpu_quota(groups.root, "/slice/job"), (CpuQuota{500, groups.inode("slice/job")}));
  EXPECT_EQ(read_cpu_quota(groups.root, "/slice"), (CpuQuota{1500, groups.inode("slice")}));
  groups.limit("", "20000 100000");  // a container's own root
  EXPECT_EQ(read_cpu_quota(groups.root, "/slice/job").thousandths, 200u);
}

TEST(Cpus, OfAControlGroupThatCannotBeReadHaveNoLimit) {
  const Hierarchy groups;
  groups.limit("slice", "rubbish");
  EXPECT_EQ(read_cpu_quota(groups.root, "/slice/job/gone"), CpuQuota{});
  groups.limit("slice", "1000 0");
  EXPECT_EQ(read_cpu_quota(groups.root, "/slice"), CpuQuota{});
  EXPECT_EQ(read_cpu_quota(groups.root, "/../elsewhere"), CpuQuota{});
}

}  // namespace
}  // namespace tutti
