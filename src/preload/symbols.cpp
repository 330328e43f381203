// SPDX-License-Identifier: MIT OR Apache-2.0
#include "preload/symbols.hpp"

#include <elf.h>
#include <link.h>

#include <cstdint>

namespace verbatim::preload {
namespace {

constexpr ElfW(Versym) kHidden = 0x8000;  // Not the default version of its name.
constexpr ElfW(Versym) kBase = 1;         // In no version.

/// The GNU hash table: this header, a Bloom filter, the buckets, and one chain entry per symbol.
struct HashHeader {
  std::uint32_t buckets;
  std::uint32_t first_symbol;  // Those before it are not defined here.
  std::uint32_t filter_words;
  std::uint32_t filter_shift;
};

std::uint32_t hash_of(const char* name) noexcept {
  std::uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

bool equal(const char* one, const char* other) noexcept {
  for (; *one == *other; ++one, ++other)
    if (*one == '\0') return true;
  return false;
}

class Symbols {
 public:
  explicit Symbols(const link_map& object) noexcept : base_(object.l_addr) {
    for (const ElfW(Dyn)* each = object.l_ld; each->d_tag != DT_NULL; ++each) {
      switch (each->d_tag) {
        case DT_GNU_HASH: hash_ = at<HashHeader>(*each); break;
        case DT_SYMTAB: symbols_ = at<ElfW(Sym)>(*each); break;
        case DT_STRTAB: strings_ = at<char>(*each); break;
        case DT_VERSYM: versions_ = at<ElfW(Versym)>(*each); break;
        case DT_VERDEF: definitions_ = at<ElfW(Verdef)>(*each); break;
        default: break;
      }
    }
  }

  [[nodiscard]] void* find(const char* name, const char* version) const noexcept {
    if (hash_ == nullptr || symbols_ == nullptr || strings_ == nullptr) return nullptr;
    const auto* const filter = reinterpret_cast<const ElfW(Addr)*>(hash_ + 1);
    const auto* const buckets =
        reinterpret_cast<const std::uint32_t*>(filter + hash_->filter_words);
    const std::uint32_t* const chains = buckets + hash_->buckets;
    if (hash_->buckets == 0) return nullptr;
    const std::uint32_t hash = hash_of(name);
    std::uint32_t index = buckets[hash % hash_->buckets];
    if (index < hash_->first_symbol) return nullptr;  // An empty bucket.
    for (;; ++index) {
      const std::uint32_t other = chains[index - hash_->first_symbol];
      if ((other | 1) == (hash | 1) && is(index, name) && suits(index, version))
        return reinterpret_cast<void*>(base_ + symbols_[index].st_value);
      if ((other & 1) != 0) return nullptr;  // The last one of the bucket.
    }
  }

 private:
  /// The dynamic linker has replaced these entries with addresses, except in objects that it cannot
  /// write to.
  template <class T>
  [[nodiscard]] const T* at(const ElfW(Dyn) & entry) const noexcept {
    const ElfW(Addr) address = entry.d_un.d_ptr;
    return reinterpret_cast<const T*>(address < base_ ? base_ + address : address);
  }

  [[nodiscard]] bool is(std::uint32_t index, const char* name) const noexcept {
    const ElfW(Sym)& symbol = symbols_[index];
    return symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 &&
           equal(strings_ + symbol.st_name, name);
  }

  [[nodiscard]] bool suits(std::uint32_t index, const char* version) const noexcept {
    if (versions_ == nullptr) return true;
    const ElfW(Versym) own = versions_[index];
    if (version == nullptr) return (own & kHidden) == 0;
    if ((own & ~kHidden) == kBase) return true;
    const auto* definition = definitions_;
    while (definition != nullptr) {
      const auto* const bytes = reinterpret_cast<const char*>(definition);
      const auto* const naming = reinterpret_cast<const ElfW(Verdaux)*>(bytes + definition->vd_aux);
      if (definition->vd_ndx == (own & ~kHidden))
        return equal(strings_ + naming->vda_name, version);
      if (definition->vd_next == 0) break;
      definition = reinterpret_cast<const ElfW(Verdef)*>(bytes + definition->vd_next);
    }
    return false;
  }

  ElfW(Addr) base_;
  const HashHeader* hash_ = nullptr;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* strings_ = nullptr;
  const ElfW(Versym) * versions_ = nullptr;
  const ElfW(Verdef) * definitions_ = nullptr;
};

/// Our object is near the head of the list, before everything that can be unloaded. Other threads
/// may add to the list meanwhile. Returns nullptr if we are in a separate namespace (dlmopen),
/// which this list does not contain.
const link_map* own_object() noexcept {
  for (const link_map* each = _r_debug.r_map; each != nullptr; each = each->l_next)
    if (each->l_ld == _DYNAMIC) return each;
  return nullptr;
}

}  // namespace

void* find_next_definition(const char* name) noexcept {
  const link_map* const own = own_object();
  for (const link_map* each = own != nullptr ? own->l_next : _r_debug.r_map; each != nullptr;
       each = each->l_next)
    if (void* const found = Symbols{*each}.find(name, nullptr)) return found;
  return nullptr;
}

void* find_own_definition(const char* name, const char* version) noexcept {
  const link_map* const own = own_object();
  return own != nullptr ? Symbols{*own}.find(name, version) : nullptr;
}

}  // namespace verbatim::preload
