#include "src/topo/format/xml_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tutti::topo {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string xml_text_error(std::string_view text, std::string_view root = "a") {
  const auto xml = XmlText::parse(text, root);
  if (xml) return "no error";
  EXPECT_EQ(xml.error().code, Code::kInvalidArgument);
  return xml.error().what;
}

TEST(XmlText, NamesThePlaceOfMalformedXml) {
  EXPECT_THAT(xml_text_error("<a>\n  <b>\n</a>"), StartsWith("line 3 column "));
  EXPECT_THAT(xml_text_error("<a>\n<b c=0/></a>"), StartsWith("line 2 column "));
  EXPECT_THAT(xml_text_error(""), StartsWith("line 1 column 1: "));
  EXPECT_THAT(xml_text_error(std::string_view("<a\n\0/>", 6)),
              StartsWith("line 2 column 1: a zero byte"));
}

TEST(XmlText, WantsTheOneOutermostElement) {
  EXPECT_EQ(xml_text_error("\n <b/>"), "line 2 column 2: expected one outermost element, <a>");
  EXPECT_EQ(xml_text_error("<a/><a/>"), "line 1 column 5: expected one outermost element, <a>");
  EXPECT_EQ(xml_text_error("<a/><a/>", ""), "line 1 column 5: expected one outermost element");
  EXPECT_EQ(xml_text_error("<b/>", ""), "no error");
}

TEST(XmlText, WantsNoWordsBetweenElements) {
  EXPECT_THAT(xml_text_error("<a>\n words</a>"),
              StartsWith("line 2 column 2: found `words`, expected"));
  EXPECT_THAT(xml_text_error("words\n<a/>"), StartsWith("line 1 column 1: found `words"));
  EXPECT_THAT(xml_text_error("<a><![CDATA[ ]]></a>"), HasSubstr(": found ``, expected an element"));
}

TEST(XmlText, WantsEachAttributeOnceAndUtf8) {
  EXPECT_EQ(xml_text_error("<a>\n<b c=\"1\" c=\"2\"/></a>"),
            "line 2 column 1: <b> has the attribute c twice");
  EXPECT_EQ(xml_text_error("<a b=\"\xff\"/>"),
            "line 1 column 1: <a> has b=`\\xff`, expected UTF-8");
  EXPECT_EQ(xml_text_error("<a b=\"&#xD800;\"/>"),
            "line 1 column 1: <a> has b=`\\xed\\xa0\\x80`, expected UTF-8");
}

std::string nested(int levels) {
  std::string text;
  for (int i = 0; i < levels; ++i) text += "<a>";
  for (int i = 0; i < levels; ++i) text += "</a>";
  return text;
}

TEST(XmlText, LimitsSizeDepthAndCounts) {
  EXPECT_EQ(xml_text_error(nested(XmlText::kMostDepth)), "no error");
  EXPECT_THAT(xml_text_error(nested(XmlText::kMostDepth + 1)), HasSubstr("more than 64 deep"));
  EXPECT_THAT(xml_text_error(nested(100'000)), HasSubstr("more than 64 deep"));
  EXPECT_THAT(xml_text_error(std::string(XmlText::kMostBytes + 1, ' ')),
              HasSubstr("67108865 bytes of XML are too many"));
  std::string attributes;
  for (std::size_t i = 0; i <= XmlText::kMostAttributes; ++i)
    attributes += " a" + std::to_string(i) + "=\"\"";
  EXPECT_THAT(xml_text_error("<a" + attributes + "/>"), HasSubstr("more than 256 attributes"));
  std::string elements = "<a>";
  for (std::size_t i = 0; i < XmlText::kMostElements; ++i) elements += "<b/>";
  EXPECT_THAT(xml_text_error(elements + "</a>"),
              HasSubstr("more than 1048576 elements are not read"));
}

TEST(XmlText, IsWrittenInNcclsLayout) {
  const std::string text =
      "<a b=\"1\">\n  <c d=\"&lt;&quot;&amp;&#10;\"/>\n  <e>\n    <f/>\n  </e>\n</a>\n";
  const auto xml = XmlText::parse(text, "a");
  ASSERT_TRUE(xml) << xml.error().what;
  EXPECT_EQ(to_lines(xml->root()), text);
  EXPECT_EQ(to_line(xml->root()), "<a b=\"1\"><c d=\"&lt;&quot;&amp;&#10;\"/><e><f/></e></a>");
}

}  // namespace
}  // namespace tutti::topo
