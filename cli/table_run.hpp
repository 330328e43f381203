// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once
/// \file Measures one case after the other, and shows each line of the table when it is there.
#include <functional>
#include <string>
#include <vector>

#include "ends.hpp"
#include "measure/report.hpp"
#include "progress.hpp"
#include "terminal.hpp"

namespace verbatim::cli {

class TableRun {
 public:
  struct Options {
    const char* name;  ///< Of the subcommand.
    Figures figures{};
    Effort effort{};
    bool is_quiet = false;  ///< No table and no progress.
    /// Asks another program for the same; it has a part of the table then.
    std::function<Rival(const Case&)> rival{};
  };
  explicit TableRun(const Options& options);

  /// The exit status. A failure is said on stderr; after Ctrl-C what was measured is there.
  [[nodiscard]] int run(Client& client, const std::vector<Case>& cases);
  [[nodiscard]] const std::vector<Row>& rows() const noexcept { return rows_; }
  [[nodiscard]] const Terminal& terminal() const noexcept { return terminal_; }

 private:
  void measure(Client& client, const Case& each, double before, double share);
  void show(const Row& row);

  Options options_;
  Terminal terminal_;
  Progress progress_;
  std::vector<Row> rows_;
};

}  // namespace verbatim::cli
