// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs one case: misuse NAME. Prints "survived" when nobody noticed.
#include <cstdio>
#include <string_view>

#include "misuse/misuse.hpp"

int main(int argc, char** argv) {
  using verbatim::test::MisuseCase;
  for (const MisuseCase* each = MisuseCase::first(); each != nullptr; each = each->next)
    if (argc == 2 && argv[1] == std::string_view{each->name}) {
      each->run();
      std::puts("survived");
      return 0;
    }
  std::fputs("misuse: no such case\n", stderr);
  return 2;
}
