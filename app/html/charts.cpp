#include "html/charts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "html/encoding.h"

namespace hdfnet::app {
namespace {

std::string format(const char* pattern, double value) {
  char text[48];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string number(double value) {
  return format("%.1f", value);
}

std::string text_element(double x, double y, const std::string& text,
                         const char* anchor = "start") {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\">" +
         html_text(text) + "</text>\n";
}

std::string line_element(double x1, double y1, double x2, double y2, const char* style) {
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) +
         "\" y2=\"" + number(y2) + "\" class=\"" + style + "\"/>\n";
}

std::string svg(double width, double height, const std::string& content) {
  return "<svg viewBox=\"0 0 " + number(width) + " " + number(height) + "\" width=\"" +
         number(width) + "\" role=\"img\">\n" + content + "</svg>\n";
}

/// What a module's mark says when the pointer rests on it.
std::string tooltip(const ReportRow& row) {
  return "<title>" + html_text(row.name) + ": " + format("%.3f ms, ", row.warm.mean) +
         format("%.2f GFLOP, ", row.flop / 1e9) + format("%.1f MB, ", row.bytes / 1e6) +
         format("%.3f TFLOP/s, ", row.flop_per_second() / 1e12) +
         format("%.1f GB/s, ", row.bytes_per_second() / 1e9) + "bound by " + name(row.bound) +
         format(" (%.0f %% of the ceiling)", 100 * row.of_ceiling) + "</title>";
}

struct Box {
  double left, top, right, bottom;

  bool meets(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
  bool inside(const Box& other) const {
    return left >= other.left && right <= other.right && top >= other.top && bottom <= other.bottom;
  }
};

/// The plane of the roofline: FLOP per byte to the right, FLOP/s upwards.
class RoofPlane {
 public:
  static constexpr double width = 760, height = 420, left = 70, right = 20, top = 15, bottom = 50;
  static constexpr Box inner{left, top, width - right, height - bottom};

  RoofPlane(const std::vector<const ReportRow*>& rows, const Ceilings& ceilings) {
    const double ridge = ceilings.flop_per_second / ceilings.bytes_per_second;
    double low_x = ridge, high_x = ridge, low_y = ceilings.flop_per_second;
    for (const ReportRow* row : rows) {
      low_x = std::min(low_x, row->flop / row->bytes);
      high_x = std::max(high_x, row->flop / row->bytes);
      low_y = std::min(low_y, row->flop_per_second());
    }
    x_low_ = std::floor(std::log10(low_x));
    x_high_ = std::ceil(std::log10(high_x) + 0.2);
    y_low_ = std::floor(std::log10(low_y));
    y_high_ = std::ceil(std::log10(ceilings.flop_per_second) + 0.1);
  }

  double x(double intensity) const {
    return left + (std::log10(intensity) - x_low_) / (x_high_ - x_low_) * (width - left - right);
  }
  double y(double rate) const {
    return height - bottom -
           (std::log10(rate) - y_low_) / (y_high_ - y_low_) * (height - top - bottom);
  }
  double least_intensity() const { return std::pow(10, x_low_); }
  double most_intensity() const { return std::pow(10, x_high_); }

  /// Grid lines at the powers of ten, with their numbers.
  std::string grid() const {
    std::string content;
    for (int power = static_cast<int>(x_low_); power <= x_high_; ++power) {
      const double at = x(std::pow(10, power));
      content += line_element(at, top, at, height - bottom, "grid");
      content +=
          text_element(at, height - bottom + 16, format("%g", std::pow(10, power)), "middle");
    }
    for (int power = static_cast<int>(y_low_); power <= y_high_; ++power) {
      const double at = y(std::pow(10, power));
      content += line_element(left, at, width - right, at, "grid");
      content += text_element(left - 6, at + 4, format("%g", std::pow(10, power - 12)), "end");
    }
    content += text_element((left + width) / 2, height - 12, "FLOP per byte", "middle");
    return content + text_element(left, top - 4, "TFLOP/s");
  }

 private:
  double x_low_, x_high_, y_low_, y_high_;
};

struct Mark {
  const ReportRow* row;
  double x, y, radius;

  Box box() const { return {x - radius, y - radius, x + radius, y + radius}; }
};

/// The marks' names, where there is room for them: beside, above or below the mark.
class Labels {
 public:
  explicit Labels(const std::vector<Mark>& marks) {
    for (const Mark& mark : marks) taken_.push_back(mark.box());
  }

  void add(const Mark& mark) {
    constexpr double gap = 3, height = 13, letter = 6.6;  // of the 11-pixel font, with some air
    const double width = letter * static_cast<double>(mark.row->name.size());
    const double beside = mark.radius + gap, over = mark.radius + height / 2;
    struct Place {
      double x, y;  // the middle of the name
    };
    for (const Place place : {Place{mark.x + beside + width / 2, mark.y},
                              {mark.x - beside - width / 2, mark.y},
                              {mark.x, mark.y - over},
                              {mark.x, mark.y + over}}) {
      const Box box{place.x - width / 2, place.y - height / 2, place.x + width / 2,
                    place.y + height / 2};
      if (!box.inside(RoofPlane::inner)) continue;
      if (std::any_of(taken_.begin(), taken_.end(),
                      [&box](const Box& other) { return box.meets(other); })) {
        continue;
      }
      taken_.push_back(box);
      content_ += text_element(place.x, place.y + 4, mark.row->name, "middle");
      return;
    }
  }
  const std::string& content() const { return content_; }

 private:
  std::vector<Box> taken_;
  std::string content_;
};

std::string ceilings_lines(const RoofPlane& plane, const Ceilings& ceilings) {
  const double ridge = ceilings.flop_per_second / ceilings.bytes_per_second;
  const double least = std::min(plane.least_intensity(), ridge);
  return "<clipPath id=\"plane\"><rect x=\"70\" y=\"15\" width=\"670\" "
         "height=\"355\"/></clipPath>\n"
         "<g clip-path=\"url(#plane)\">\n" +
         line_element(plane.x(least), plane.y(least * ceilings.bytes_per_second), plane.x(ridge),
                      plane.y(ceilings.flop_per_second), "roof") +
         line_element(plane.x(ridge), plane.y(ceilings.flop_per_second),
                      plane.x(plane.most_intensity()), plane.y(ceilings.flop_per_second), "roof") +
         "</g>\n";
}

}  // namespace

std::string module_bars(const ModuleReport& report) {
  constexpr double row_height = 18, left = 150, bar_width = 460, right = 150;
  double longest = 0;
  for (const ReportRow& row : report.modules) longest = std::max(longest, row.warm.mean);
  if (longest <= 0) return "<p>No module was measured.</p>\n";
  std::string content;
  double y = 4;
  for (const ReportRow& row : report.modules) {
    const double width = row.warm.mean / longest * bar_width;
    content += text_element(left - 8, y + 13, row.name, "end");
    content += "<rect class=\"" + std::string(name(row.bound)) + "\" x=\"" + number(left) +
               "\" y=\"" + number(y + 2) + "\" width=\"" + number(std::max(width, 1.0)) +
               "\" height=\"" + number(row_height - 4) + "\">" + tooltip(row) + "</rect>\n";
    content +=
        text_element(left + width + 6, y + 13,
                     format("%.3f ms", row.warm.mean) + format("  %.1f %%", 100 * row.share));
    y += row_height;
  }
  return svg(left + bar_width + right, y + 4, content);
}

std::string roofline(const ModuleReport& report) {
  std::vector<const ReportRow*> rows;
  for (const ReportRow& row : report.modules) {
    if (row.flop > 0 && row.bytes > 0 && row.warm.median > 0) rows.push_back(&row);
  }
  if (!report.ceilings || rows.empty()) {
    return "<p>The ceilings of this device were not measured, so there is no roofline.</p>\n";
  }
  const RoofPlane plane(rows, *report.ceilings);
  std::string content = plane.grid() + ceilings_lines(plane, *report.ceilings);
  // The slowest modules are named first, because they are what a reader looks for.
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ReportRow* a, const ReportRow* b) { return a->share > b->share; });
  std::vector<Mark> marks;
  for (const ReportRow* row : rows) {
    const Mark mark{row, plane.x(row->flop / row->bytes), plane.y(row->flop_per_second()),
                    3 + 9 * std::sqrt(row->share)};
    content += "<circle class=\"" + std::string(name(row->bound)) + "\" cx=\"" + number(mark.x) +
               "\" cy=\"" + number(mark.y) + "\" r=\"" + number(mark.radius) + "\">" +
               tooltip(*row) + "</circle>\n";
    marks.push_back(mark);
  }
  Labels labels(marks);
  for (const Mark& mark : marks) labels.add(mark);
  content += labels.content();
  return svg(RoofPlane::width, RoofPlane::height, content);
}

}  // namespace hdfnet::app
