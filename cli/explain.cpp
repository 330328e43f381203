// SPDX-License-Identifier: MIT OR Apache-2.0
#include "explain.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "error_catalogue.hpp"
#include "terminal.hpp"
#include "verbatim/base/explain.hpp"

namespace verbatim::cli {
namespace {

/// An entry, and what explain() says of it on this machine, where the call is known.
struct Answer {
  ErrorEntry entry;
  std::optional<std::string> here{};
};

Answer answer(ErrorEntry entry, const std::string& operation) {
  if (operation.empty() || entry.kind != ErrorKind::os_error) return {std::move(entry)};
  std::string here = explain(os_failure(operation.c_str(), entry.value));
  return {std::move(entry), std::move(here)};
}

std::string unknown(const std::string& word) {
  std::string text = word + " is no code, status or errno";
  const auto names = near_names(word);
  if (!names.empty()) text += fmt::format("; is it {}?", fmt::join(names, ", "));
  return text;
}

/// Two words may mean the same.
bool has(const std::vector<Answer>& answers, const ErrorEntry& entry) {
  return std::ranges::any_of(answers, [&](const Answer& each) {
    return each.entry.kind == entry.kind && each.entry.value == entry.value;
  });
}

std::vector<Answer> look_up(const ExplainOptions& options) {
  std::vector<Answer> answers;
  if (options.all || options.list) {
    for (ErrorEntry& entry : error_catalogue()) answers.push_back({std::move(entry)});
    return answers;
  }
  for (const std::string& word : options.words) {
    auto found = find_errors(word);
    if (found.empty()) throw CLI::ValidationError{unknown(word)};
    for (ErrorEntry& entry : found)
      if (!has(answers, entry)) answers.push_back(answer(std::move(entry), options.operation));
  }
  if (!options.operation.empty() &&
      std::ranges::none_of(answers, [](const Answer& each) { return each.here.has_value(); }))
    throw CLI::ValidationError{"--in is for an errno"};
  return answers;
}

void print_json(const std::vector<Answer>& answers) {
  auto all = nlohmann::ordered_json::array();
  for (const Answer& each : answers) {
    auto object = to_json(each.entry);
    if (each.here) object["here"] = *each.here;
    all.push_back(std::move(object));
  }
  fmt::print("{}\n", all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void print_list(const std::vector<Answer>& answers) {
  std::size_t width = 0;
  for (const Answer& each : answers) width = std::max(width, each.entry.code.size());
  for (const auto& [entry, here] : answers)
    fmt::print("{:<6}  {:>3}  {:<{}}  {}\n", to_string(entry.kind), entry.value, entry.code, width,
               entry.name);
}

/// The first line of each stands out.
void print_text(const std::vector<Answer>& answers) {
  const Terminal terminal{STDOUT_FILENO};
  bool is_first = true;
  for (const auto& [entry, here] : answers) {
    const std::string text = here ? *here + '\n' : to_text(entry);
    const std::size_t end = text.find('\n');
    fmt::print("{}{}{}", std::exchange(is_first, false) ? "" : "\n",
               terminal.paint(Style::bold, text.substr(0, end)), text.substr(end));
    if (entry.kind == ErrorKind::os_error && !here)
      fmt::print("  about this machine, with the call that failed: verbatim explain --in CALL {}\n",
                 entry.code);
  }
}

void run_explain(const ExplainOptions& options) {
  const auto answers = look_up(options);
  if (options.json) return print_json(answers);
  if (options.list) return print_list(answers);
  print_text(answers);
}

}  // namespace

void add_explain(CLI::App& app, CommandLine& line) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App& command = *app.add_subcommand("explain", "Say what an error means and what to do");
  command.add_option("ERROR", options->words,
                     "A code (peer_lost), a work status (IBV_WC_RETRY_EXC_ERR, retry_exceeded), an "
                     "errno (ENOMEM), or a number, which may be a status and an errno");
  command.add_option("--in", options->operation,
                     "The call that failed with the errno (ibv_reg_mr): looks at this machine too");
  command.add_flag("--list", options->list, "Every error, a line for each");
  command.add_flag("--all", options->all, "Every error, in full");
  command.add_flag("--json", options->json, "Print JSON");
  command.callback([options, &line] {
    if (options->words.empty() == (!options->all && !options->list))
      throw CLI::RequiredError{options->words.empty() ? "An error, --list or --all"
                                                      : "Either an error or --list or --all"};
    run_explain(*options);
    line.status = kGood;
  });
}

}  // namespace verbatim::cli
