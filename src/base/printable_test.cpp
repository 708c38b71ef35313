#include "src/base/printable.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(Printable, ShowsControlBytesAsNumbersButForThoseKept) {
  EXPECT_EQ(without_controls("a\x1b[2J\n\x7f"), "a\\x1b[2J\\x0a\\x7f");
  EXPECT_EQ(without_controls("a\n\tb\x01", "\n\t"), "a\n\tb\\x01");
  EXPECT_EQ(without_controls("\u00b5s"), "\u00b5s") << "UTF-8 stays";
}

}  // namespace
}  // namespace tutti
