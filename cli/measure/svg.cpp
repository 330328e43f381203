// SPDX-License-Identifier: MIT OR Apache-2.0
#include "measure/svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

namespace verbatim::cli {
namespace {

constexpr double kWidth = 680;
constexpr double kPanel = 280;
constexpr double kLeft = 70;
constexpr double kRight = 140;
constexpr double kTop = 36;
constexpr double kBottom = 44;
constexpr double kTitle = 34;

struct Point {
  double x;
  double y;
};
struct Curve {
  std::string name;
  std::string_view colour;
  bool is_dashed;
  std::vector<Point> points;
};

/// Colours that the colour-blind tell apart.
constexpr std::array<std::string_view, 4> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7"};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char each : text) {
    if (each == '<')
      out += "&lt;";
    else if (each == '>')
      out += "&gt;";
    else if (each == '&')
      out += "&amp;";
    else if (static_cast<unsigned char>(each) >= ' ')
      out += each;
  }
  return out;
}

/// A logarithmic axis that ends on whole powers of its base, and is never empty.
class Axis {
 public:
  Axis(double base, double least, double most, double from, double to)
      : base_(base), from_(from), to_(to) {
    first_ = std::floor(logarithm(least) + 1e-9);
    last_ = std::max(std::ceil(logarithm(most) - 1e-9), first_ + 1);
  }
  [[nodiscard]] double at(double value) const {
    return from_ + (logarithm(value) - first_) / (last_ - first_) * (to_ - from_);
  }
  /// Few enough to be read.
  [[nodiscard]] std::vector<double> ticks() const {
    const double step = std::ceil((last_ - first_) / 8);
    std::vector<double> result;
    for (double each = first_; each <= last_; each += step) result.push_back(std::pow(base_, each));
    return result;
  }

 private:
  [[nodiscard]] double logarithm(double value) const { return std::log(value) / std::log(base_); }
  double base_;
  double first_ = 0;
  double last_ = 1;
  double from_;
  double to_;
};

std::string text(double x, double y, std::string_view anchor, std::string_view words,
                 std::string_view more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, more, escaped(words));
}

std::string frame(const Axis& x, const Axis& y, double top, std::string_view name) {
  const double bottom = top + kPanel - kBottom;
  std::string out = text(kLeft, top + kTop - 12, "start", name, " font-weight=\"bold\"");
  for (const double each : y.ticks()) {
    out += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", kLeft,
        y.at(each), kWidth - kRight, y.at(each));
    out += text(kLeft - 8, y.at(each) + 4, "end", fmt::format("{:g}", each));
  }
  for (const double each : x.ticks()) {
    out += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>\n",
        x.at(each), top + kTop, bottom);
    out += text(x.at(each), bottom + 16, "middle",
                short_size(static_cast<std::uint64_t>(std::lround(each))));
  }
  out += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" "
      "stroke=\"#333\"/>\n",
      kLeft, top + kTop, kWidth - kLeft - kRight, kPanel - kTop - kBottom);
  return out + text((kLeft + kWidth - kRight) / 2, bottom + 34, "middle", "bytes per message");
}

std::string panel(const std::vector<Curve>& curves, double top, std::string_view name) {
  Point least{1e18, 1e18};
  Point most{0, 0};
  for (const Curve& curve : curves)
    for (const Point& each : curve.points) {
      least = {std::min(least.x, each.x), std::min(least.y, each.y)};
      most = {std::max(most.x, each.x), std::max(most.y, each.y)};
    }
  const Axis x{2, least.x, most.x, kLeft, kWidth - kRight};
  const Axis y{10, least.y, most.y, top + kPanel - kBottom, top + kTop};
  std::string out = frame(x, y, top, name);
  double legend = top + kTop + 10;
  for (const Curve& curve : curves) {
    const std::string_view dashes = curve.is_dashed ? " stroke-dasharray=\"5 3\"" : "";
    out += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{} points=\"",
                       curve.colour, dashes);
    for (const Point& each : curve.points)
      out += fmt::format("{:.1f},{:.1f} ", x.at(each.x), y.at(each.y));
    out += "\"/>\n";
    for (const Point& each : curve.points)
      out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n",
                         x.at(each.x), y.at(each.y), curve.colour);
    const double right = kWidth - kRight + 10;
    out += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" "
        "stroke-width=\"2\"{}/>\n",
        right, legend, right + 18, legend, curve.colour, dashes);
    out += text(right + 24, legend + 4, "start", curve.name);
    legend += 18;
  }
  return out;
}

/// A curve for each verb, of the rows for which `value` has one that can be drawn.
template <class Value>
void add_curves(std::span<const Row> rows, std::string_view suffix, bool is_dashed, Value&& value,
                std::vector<Curve>& curves) {
  for (const Verb verb : {Verb::send, Verb::write, Verb::read, Verb::atomic}) {
    Curve curve{std::string{to_string(verb)}.append(suffix),
                kColours.at(static_cast<std::size_t>(verb)),
                is_dashed,
                {}};
    for (const Row& row : rows)
      if (const double figure = row.what.verb == verb ? value(row) : 0; figure > 0)
        curve.points.push_back({static_cast<double>(row.what.bytes), figure});
    std::ranges::sort(curve.points, {}, &Point::x);
    if (!curve.points.empty()) curves.push_back(std::move(curve));
  }
}

}  // namespace

std::string svg_plot(std::span<const Row> rows, std::string_view title) {
  std::vector<Curve> latency;
  std::vector<Curve> bandwidth;
  add_curves(rows, " median", false, [](const Row& row) { return row.microseconds(0.5); }, latency);
  add_curves(rows, " p99", true, [](const Row& row) { return row.microseconds(0.99); }, latency);
  add_curves(rows, "", false, [](const Row& row) { return row.mib_per_s(); }, bandwidth);
  double height = kTitle;
  std::string panels;
  if (!latency.empty()) {
    panels += panel(latency, height, "latency, us");
    height += kPanel;
  }
  if (!bandwidth.empty()) {
    panels += panel(bandwidth, height, "bandwidth, MiB/s");
    height += kPanel;
  }
  return fmt::format(
             "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" "
             "viewBox=\"0 0 {0:g} {1:g}\" font-family=\"sans-serif\" font-size=\"12\" "
             "fill=\"#222\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
             kWidth, height) +
         text(kLeft, 22, "start", title, " font-size=\"15\"") + panels + "</svg>\n";
}

}  // namespace verbatim::cli
