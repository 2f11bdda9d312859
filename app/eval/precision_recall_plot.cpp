#include "eval/precision_recall_plot.h"

#include <algorithm>
#include <cstdio>

namespace hdfnet::eval {
namespace {

constexpr double kLeft = 64, kTop = 44, kSide = 400;

double to_x(double recall) {
  return kLeft + recall * kSide;
}
double to_y(double precision) {
  return kTop + (1 - precision) * kSide;
}

std::string number(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      default:
        result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return result;
}

std::string line(double x1, double y1, double x2, double y2, const char* colour) {
  return "<line x1=\"" + number(x1, 1) + "\" y1=\"" + number(y1, 1) + "\" x2=\"" + number(x2, 1) +
         "\" y2=\"" + number(y2, 1) + "\" stroke=\"" + colour + "\"/>\n";
}

std::string text(double x, double y, const char* anchor, const std::string& content,
                 const std::string& more = {}) {
  return "<text x=\"" + number(x, 1) + "\" y=\"" + number(y, 1) + "\" text-anchor=\"" + anchor +
         "\"" + more + ">" + escaped(content) + "</text>\n";
}

/// Grid lines with their numbers, every 0.1, and the names of the axes.
std::string axes() {
  std::string svg;
  for (int i = 0; i <= 10; ++i) {
    const double value = i / 10.0;
    const char* colour = i % 10 == 0 ? "#444" : "#ddd";
    svg += line(to_x(value), kTop, to_x(value), kTop + kSide, colour);
    svg += line(kLeft, to_y(value), kLeft + kSide, to_y(value), colour);
    svg += text(to_x(value), kTop + kSide + 18, "middle", number(value, 1));
    svg += text(kLeft - 8, to_y(value) + 4, "end", number(value, 1));
  }
  svg += text(kLeft + kSide / 2, kTop + kSide + 40, "middle", "recall");
  const std::string turn = " transform=\"rotate(-90 18 " + number(kTop + kSide / 2, 1) + ")\"";
  svg += text(18, kTop + kSide / 2, "middle", "precision", turn);
  return svg;
}

}  // namespace

std::string precision_recall_svg(const Summary& summary, const std::string& title) {
  std::string points;
  for (std::size_t i = 0; i < summary.recall.size(); ++i) {
    points +=
        number(to_x(summary.recall[i]), 2) + "," + number(to_y(summary.precision[i]), 2) + " ";
  }
  const auto best = static_cast<std::size_t>(
      std::max_element(summary.f_measure.begin(), summary.f_measure.end()) -
      summary.f_measure.begin());
  const double x = to_x(summary.recall[best]), y = to_y(summary.precision[best]);
  const std::string label = "max F = " + number(summary.max_f, 4) + " at threshold " +
                            std::to_string(255 - best) + "/255";

  std::string svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"500\" height=\"500\" "
      "viewBox=\"0 0 500 500\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"500\" height=\"500\" fill=\"#fff\"/>\n";
  svg += text(kLeft + kSide / 2, 24, "middle", title, " font-size=\"15\"");
  svg += axes();
  svg +=
      "<polyline fill=\"none\" stroke=\"#1f6fb4\" stroke-width=\"2\" points=\"" + points + "\"/>\n";
  svg += "<circle cx=\"" + number(x, 2) + "\" cy=\"" + number(y, 2) +
         "\" r=\"4\" fill=\"#d1495b\"/>\n";
  svg += text(kLeft + 12, kTop + kSide - 14, "start", label, " fill=\"#d1495b\"");
  return svg + "</svg>\n";
}

}  // namespace hdfnet::eval
