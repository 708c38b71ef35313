#include "src/exec/caption.hpp"

#include <cstring>

#include <gtest/gtest.h>

namespace tutti::exec {
namespace {

TEST(Caption, IsReadAsItWasWrittenAndEmptyBefore) {
  Caption caption{};
  EXPECT_EQ(read_caption(caption), "");
  write_caption(caption, "ncclAllReduce(count=5) at ./train(step+0x3f)");
  EXPECT_EQ(read_caption(caption), "ncclAllReduce(count=5) at ./train(step+0x3f)");
  write_caption(caption, "shorter");
  EXPECT_EQ(read_caption(caption), "shorter");
}

TEST(Caption, IsCutWhereItDoesNotFit) {
  Caption caption{};
  const std::string text(sizeof caption.text + 100, 'x');
  write_caption(caption, text);
  EXPECT_EQ(read_caption(caption), text.substr(0, sizeof caption.text - 1));
}

TEST(Caption, FromAHostilePeerEndsWithItsMemoryAndHoldsNothingThatATerminalObeys) {
  Caption caption;
  std::memset(caption.text, '\x1b', sizeof caption.text);
  EXPECT_EQ(read_caption(caption), std::string(sizeof caption.text, '?'));
  std::memset(caption.text, '\xff', sizeof caption.text);
  EXPECT_EQ(read_caption(caption), std::string(sizeof caption.text, '?'));
}

}  // namespace
}  // namespace tutti::exec
