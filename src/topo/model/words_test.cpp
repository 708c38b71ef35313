#include "src/topo/model/words.hpp"

#include <gtest/gtest.h>

namespace tutti::topo {
namespace {

TEST(Words, AreShownInOneLineOfPrintableAscii) {
  EXPECT_EQ(shown("a b~"), "`a b~`");
  EXPECT_EQ(shown("\n\x7f\xc3"), "`\\x0a\\x7f\\xc3`");
  EXPECT_EQ(shown(std::string(60, 'x')), "`" + std::string(60, 'x') + "`");
  EXPECT_EQ(shown(std::string(61, 'x')), "`" + std::string(60, 'x') + "...`");
}

TEST(Words, AreUtf8WhereEveryCharacterHasItsShortestForm) {
  for (const char* text : {"", "a", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF",
                           "\xEE\x80\x80", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "x\xC3\xA4y"})
    EXPECT_TRUE(is_utf8(text)) << shown(text);
  for (const char* text :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2 ", "\xE0\x9F\xBF", "\xE0\xA0", "\xED\xA0\x80",
        "\xE1\x80 ", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF0\x90\x80", "\xF0\x90\x80\xC0",
        "\xF5\x80\x80\x80", "\xFF"})
    EXPECT_FALSE(is_utf8(text)) << shown(text);
}

TEST(Words, HaveAPositionInTheirText) {
  EXPECT_EQ(position("ab\ncd", 1), "line 1 column 1");
  EXPECT_EQ(position("ab\ncd", 3), "line 1 column 3");
  EXPECT_EQ(position("ab\ncd", 5), "line 2 column 2");
  EXPECT_EQ(position("", 0), "line 1 column 1");
}

TEST(Words, AreNamesWhereTheyCanStandInALine) {
  EXPECT_TRUE(is_name("gpu 0"));
  EXPECT_TRUE(is_name(std::string(256, 'x')));
  EXPECT_FALSE(is_name(std::string(257, 'x')));
  EXPECT_FALSE(is_name(""));
  EXPECT_FALSE(is_name("a\tb"));
  EXPECT_FALSE(is_name("\x7F"));
  EXPECT_FALSE(is_name("\xC0"));
}

}  // namespace
}  // namespace tutti::topo
