#include "src/comm/program_library.hpp"

#include <gtest/gtest.h>

#include "src/base/result.hpp"

namespace tutti {
namespace {

TEST(ProgramLibrary, SharesAProgramWhileAnybodyKeepsIt) {
  ProgramLibrary library;
  int made = 0;
  const auto make = [&]() -> Result<ProgramLibrary::Program> {
    ++made;
    return std::make_shared<const lower::Lowered>();
  };
  ProgramLibrary::Key key;
  key.algorithm = "ring";
  key.host = {0, 0};
  auto other_place = key;
  other_place.host = {0, 1};
  auto one = library.get(key, make), same = library.get(key, make);
  const auto other = library.get(other_place, make);
  ASSERT_TRUE(one && same && other);
  EXPECT_EQ(*one, *same);
  EXPECT_NE(*one, *other);
  EXPECT_EQ(made, 2);
  *one = *same = nullptr;
  EXPECT_TRUE(library.get(key, make));
  EXPECT_EQ(made, 3);
}

TEST(ProgramLibrary, KeepsNeitherErrorsNorWhatDoesNotFit) {
  ProgramLibrary library;
  const ProgramLibrary::Key key;
  EXPECT_FALSE(library.get(key, [] { return make_error(Code::kInternal, "no"); }));
  const auto none = library.get(key, [] { return ProgramLibrary::Program(); });
  ASSERT_TRUE(none);
  EXPECT_EQ(*none, nullptr);
  const auto made = library.get(key, [] { return std::make_shared<const lower::Lowered>(); });
  ASSERT_TRUE(made);
  EXPECT_NE(*made, nullptr);
}

}  // namespace
}  // namespace tutti
