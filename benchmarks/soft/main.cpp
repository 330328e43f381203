// SPDX-License-Identifier: MIT OR Apache-2.0
//
// soft_driver --role left|right --case CASE --socket FD   one side of a measurement; the socket is
//                                                          one end of a pair, passed in open
// soft_driver --role left|right --case cacheline|process_vm --shared FD
// soft_driver --role left --case memcpy.BYTES --shared FD
//
// CASE is <write|read|send>.<lat|bw|rate>.<bytes>.<buffer|plain>. Left prints the figure. With
// --manner perftest both sides do things in the order in which perftest does them.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <ranges>
#include <string>

#include "cases.hpp"

using namespace verbatim::bench;

namespace {

template <class T>
T one_of(const std::map<std::string, T>& names, const std::string& name) {
  const auto found = names.find(name);
  if (found == names.end()) die("what is '" + name + "'?");
  return found->second;
}

std::size_t number(const std::string& text) { return std::strtoul(text.c_str(), nullptr, 10); }

std::vector<std::string> split(const std::string& name) {
  std::vector<std::string> parts;
  for (const auto part : std::views::split(name, '.')) parts.emplace_back(part.begin(), part.end());
  return parts;
}

double measure(const std::map<std::string, std::string>& options) {
  const Role role =
      one_of<Role>({{"left", Role::left}, {"right", Role::right}}, options.at("--role"));
  const auto parts = split(options.at("--case"));
  if (parts[0] == "cacheline" && parts.size() == 1)
    return hand_off(role, static_cast<int>(number(options.at("--shared"))));
  if (parts[0] == "process_vm" && parts.size() == 1)
    return hand_off_by_call(role, static_cast<int>(number(options.at("--shared"))));
  if (parts[0] == "memcpy" && parts.size() == 2)
    return copy(number(parts[1]), static_cast<int>(number(options.at("--shared"))));
  if (parts.size() != 4 || number(parts[2]) < 8) die("no such case");
  const Case each{
      one_of<Verb>({{"write", Verb::write}, {"read", Verb::read}, {"send", Verb::send}}, parts[0]),
      one_of<Figure>({{"lat", Figure::latency}, {"bw", Figure::bandwidth}, {"rate", Figure::rate}},
                     parts[1]),
      number(parts[2]),
      one_of<Memory>({{"buffer", Memory::buffer}, {"plain", Memory::plain}}, parts[3]),
      one_of<Manner>({{"", Manner::hurried}, {"perftest", Manner::perftest}},
                     options.contains("--manner") ? options.at("--manner") : "")};
  return run(each, role, static_cast<int>(number(options.at("--socket"))));
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> options;
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  if (!options.contains("--role") || !options.contains("--case") ||
      (!options.contains("--socket") && !options.contains("--shared"))) {
    std::fputs("usage: soft_driver --role left|right --case CASE --socket FD | --shared FD\n",
               stderr);
    return 2;
  }
  const double figure = measure(options);
  if (options["--role"] == "left") std::printf("%.6g\n", figure);
  return 0;
}
