/* libtutti_audit.so: what `tutti dropin --check` has the dynamic linker load (LD_AUDIT,
 * rtld-audit(7)) into a program and all that it starts. It appends an event a line to the file that
 * _TUTTI_DROPIN_EVENTS names; tools/dropin/events.hpp reads them. Changes nothing in the program.
 *
 * C, and nothing but libc: the linker gives an auditor a namespace of its own, with its own libc.
 * The file is opened for each event, because programs close descriptors that they do not know. */
#define _GNU_SOURCE 1
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AUDIT_API __attribute__((visibility("default")))
_Static_assert(sizeof(ElfW(Addr)) == 8, "la_symbind64 is the interface of 64-bit machines");

/* A line is written at once, so that those of several processes do not mix. Longer ones are cut. */
enum { kLongestLine = 8192 };

static const char* events_path;    /* NULL: nothing is recorded */
static char program[4096];         /* what the main program's link_map leaves out */
static pid_t recorded_pid;         /* the process of the last event: a fork shows as another one */
static struct link_map* requester; /* of the last search, which precedes the opening it led to */
static unsigned int search_flag;
static int by_preload; /* whether the last search began with a name of LD_PRELOAD */

static size_t add(char* line, size_t length, const char* field) {
  for (; *field != '\0' && length < kLongestLine - 2; ++field)
    line[length++] = (unsigned char)*field < ' ' ? '?' : *field;
  return length;
}

static size_t add_number(char* line, size_t length, long value) {
  char digits[24], *at = digits + sizeof digits - 1;
  *at = '\0';
  do *--at = (char)('0' + value % 10);
  while ((value /= 10) > 0);
  return add(line, length, at);
}

/* Appends "PID KIND FIELD..." separated by tabs; the fields end with NULL. */
static void write_line(long pid, const char* kind, va_list fields) {
  char line[kLongestLine];
  size_t length = add_number(line, 0, pid);
  for (const char* field = kind; field != NULL; field = va_arg(fields, const char*)) {
    if (length < kLongestLine - 2) line[length++] = '\t';
    length = add(line, length, field);
  }
  line[length++] = '\n';
  const int file = open(events_path, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) return;
  const ssize_t written = write(file, line, length); /* nobody to tell if it fails */
  (void)written;
  close(file);
}

static void write_event(long pid, const char* kind, ...) {
  va_list fields;
  va_start(fields, kind);
  write_line(pid, kind, fields);
  va_end(fields);
}

static void record(const char* kind, ...) {
  if (events_path == NULL) return;
  const pid_t pid = getpid();
  if (pid != recorded_pid) {
    char parent[24];
    parent[add_number(parent, 0, recorded_pid)] = '\0';
    recorded_pid = pid;
    write_event(pid, "fork", parent, NULL);
  }
  va_list fields;
  va_start(fields, kind);
  write_line(pid, kind, fields);
  va_end(fields);
}

static const char* path_of(const struct link_map* map) {
  return map == NULL || map->l_name == NULL || *map->l_name == '\0' ? program : map->l_name;
}

static int is_nccl_call(const char* name) {
  name += *name == 'p';
  return strncmp(name, "nccl", 4) == 0 && name[4] >= 'A' && name[4] <= 'Z';
}

static int is_nccl_library(const char* path) {
  const char* slash = strrchr(path, '/');
  return strncmp(slash == NULL ? path : slash + 1, "libnccl.so", 10) == 0;
}

/* Whether LD_PRELOAD names it. */
static int is_preloaded(const char* name) {
  const char* list = getenv("LD_PRELOAD");
  const size_t length = strlen(name);
  while (list != NULL && *list != '\0') {
    const size_t word = strcspn(list, ": ");
    if (word == length && strncmp(list, name, length) == 0) return 1;
    list += word + (list[word] != '\0');
  }
  return 0;
}

/* The parts of an object's dynamic section that are of use here. */
struct Dynamic {
  const char* strings;
  const ElfW(Sym) * symbols;
  const ElfW(Rela) * tables[2]; /* of data and of calls */
  size_t bytes[2];
  const ElfW(Dyn) * entries;
};

static const void* address(const struct link_map* map, ElfW(Addr) value) {
  return (const void*)(value < map->l_addr ? value + map->l_addr
                                           : value); /* or relocated already */
}

static struct Dynamic dynamic_of(const struct link_map* map) {
  struct Dynamic dynamic = {0};
  dynamic.entries = map->l_ld;
  for (const ElfW(Dyn)* entry = map->l_ld; entry != NULL && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) dynamic.strings = address(map, entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB) dynamic.symbols = address(map, entry->d_un.d_ptr);
    if (entry->d_tag == DT_RELA) dynamic.tables[0] = address(map, entry->d_un.d_ptr);
    if (entry->d_tag == DT_RELASZ) dynamic.bytes[0] = entry->d_un.d_val;
    if (entry->d_tag == DT_JMPREL) dynamic.tables[1] = address(map, entry->d_un.d_ptr);
    if (entry->d_tag == DT_PLTRELSZ) dynamic.bytes[1] = entry->d_un.d_val;
  }
  return dynamic;
}

/* The string that entry `tag` names, "" where there is none. */
static const char* string_of(const struct Dynamic* dynamic, ElfW(Sxword) tag) {
  for (const ElfW(Dyn)* entry = dynamic->entries; entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == tag) return dynamic->strings + entry->d_un.d_val;
  return "";
}

static int needs_tutti(const struct Dynamic* dynamic) {
  for (const ElfW(Dyn)* entry = dynamic->entries; entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == DT_NEEDED &&
        strncmp(dynamic->strings + entry->d_un.d_val, "libtutti.so", 11) == 0)
      return 1;
  return 0;
}

/* Undefined symbols are found through the relocations, since a GNU hash table does not count them.
 */
static void record_needs(const char* path, const struct Dynamic* dynamic) {
  for (int table = 0; table < 2 && dynamic->symbols != NULL; ++table) {
    const ElfW(Rela)* relocation = dynamic->tables[table];
    if (relocation == NULL) continue;
    const ElfW(Rela)* end = relocation + dynamic->bytes[table] / sizeof *relocation;
    for (; relocation < end; ++relocation) {
      const ElfW(Sym)* symbol = dynamic->symbols + ELF64_R_SYM(relocation->r_info);
      const char* name = dynamic->strings + symbol->st_name;
      if (symbol->st_shndx != SHN_UNDEF || !is_nccl_call(name)) continue;
      const int weak = ELF64_ST_BIND(symbol->st_info) == STB_WEAK;
      record("need", path, name, weak ? "weak" : "linked", NULL);
    }
  }
}

static const char* found_by(void) {
  if (by_preload) return "LD_PRELOAD";
  switch (search_flag) {
    case LA_SER_LIBPATH:
      return "LD_LIBRARY_PATH";
    case LA_SER_RUNPATH:
      return "RPATH"; /* or RUNPATH: whose, the reader of the events finds out */
    case LA_SER_CONFIG:
    case LA_SER_DEFAULT:
      return "default";
    default:
      return "path";
  }
}

AUDIT_API unsigned int la_version(unsigned int version) {
  events_path = getenv("_TUTTI_DROPIN_EVENTS");
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  program[length > 0 ? length : 0] = '\0';
  recorded_pid = getpid();
  record("start", program, NULL);
  return version < LAV_CURRENT ? version : LAV_CURRENT;
}

AUDIT_API char* la_objsearch(const char* name, uintptr_t* cookie, unsigned int flag) {
  requester = (struct link_map*)*cookie;
  search_flag = flag;
  if (flag == LA_SER_ORIG) {
    by_preload = is_preloaded(name);
    if (is_nccl_library(name) && !by_preload) record("search", name, NULL);
  }
  return (char*)name;
}

AUDIT_API unsigned int la_objopen(struct link_map* map, Lmid_t space, uintptr_t* cookie) {
  (void)space;
  (void)cookie; /* stays the link_map, which it is at first */
  const struct Dynamic dynamic = dynamic_of(map);
  if (dynamic.strings == NULL) return 0;
  const int is_program = map->l_name == NULL || *map->l_name == '\0';
  record("object", path_of(map), is_program ? "" : path_of(requester),
         is_program ? "program" : found_by(), string_of(&dynamic, DT_SONAME),
         string_of(&dynamic, DT_RPATH), string_of(&dynamic, DT_RUNPATH),
         needs_tutti(&dynamic) ? "tutti" : "", NULL);
  record_needs(path_of(map), &dynamic);
  return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

AUDIT_API uintptr_t la_symbind64(Elf64_Sym* symbol, unsigned int index, uintptr_t* from,
                                 uintptr_t* to, unsigned int* flags, const char* name) {
  (void)index;
  *flags |= LA_SYMB_NOPLTENTER | LA_SYMB_NOPLTEXIT;
  if (is_nccl_call(name))
    record("bind", path_of((const struct link_map*)*from), path_of((const struct link_map*)*to),
           name, (*flags & LA_SYMB_DLSYM) != 0 ? "dlsym" : "linked", NULL);
  return symbol->st_value;
}
