/* Reads what a kernel takes of an SM from its cubin: an ELF file whose section .nv.info lists, for
 * each function, its registers and the bytes of its frame. This needs no GPU, and unlike the
 * compiler's verbose output it is there for cubins that come from a cache too. Every offset is
 * checked: a file that is cut off or is no ELF gives "not known". */
#include "press/cubin.h"

#include <elf.h>
#include <string.h>

/* Records of .nv.info: a format byte, an attribute byte, 16 bits, and for format SIZED as many
 * bytes as those say. */
enum {
  FORMAT_SIZED = 0x04,
  ATTRIBUTE_FRAME_BYTES = 0x11,
  ATTRIBUTE_REGISTERS = 0x2f,
};

typedef struct elf_file {
  const unsigned char *data;
  size_t size;
  Elf64_Ehdr header;
} elf_file;

/** 1 and a copy of section i's header, if the file has the section's contents, all of them. */
static int read_section(const elf_file *elf, size_t i, Elf64_Shdr *section) {
  if (i >= elf->header.e_shnum)
    return 0;
  memcpy(section, elf->data + elf->header.e_shoff + i * sizeof *section, sizeof *section);
  return section->sh_type != SHT_NOBITS && section->sh_offset <= elf->size &&
         section->sh_size <= elf->size - section->sh_offset;
}

/** The string at an offset of a string table; "" where it does not end within the table. */
static const char *string_at(const elf_file *elf, const Elf64_Shdr *table, size_t offset) {
  if (offset >= table->sh_size)
    return "";
  const char *text = (const char *)elf->data + table->sh_offset + offset;
  return memchr(text, '\0', table->sh_size - offset) != NULL ? text : "";
}

static int open_elf(elf_file *elf, const unsigned char *data, size_t size) {
  elf->data = data;
  elf->size = size;
  if (size < sizeof elf->header)
    return 0;
  memcpy(&elf->header, data, sizeof elf->header);
  return memcmp(elf->header.e_ident, ELFMAG, SELFMAG) == 0 &&
         elf->header.e_ident[EI_CLASS] == ELFCLASS64 &&
         elf->header.e_shentsize == sizeof(Elf64_Shdr) && elf->header.e_shoff <= size &&
         elf->header.e_shnum <= (size - elf->header.e_shoff) / sizeof(Elf64_Shdr);
}

/** The index of a function in the symbol table; 0 where it is not there. */
static uint32_t find_symbol(const elf_file *elf, const char *name) {
  Elf64_Shdr table, strings;
  for (size_t i = 0; i < elf->header.e_shnum; ++i) {
    if (!read_section(elf, i, &table) || table.sh_type != SHT_SYMTAB ||
        !read_section(elf, table.sh_link, &strings))
      continue;
    for (size_t j = 1; j < table.sh_size / sizeof(Elf64_Sym); ++j) {
      Elf64_Sym symbol;
      memcpy(&symbol, elf->data + table.sh_offset + j * sizeof symbol, sizeof symbol);
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
          strcmp(string_at(elf, &strings, symbol.st_name), name) == 0)
        return (uint32_t)j;
    }
  }
  return 0;
}

static void read_records(const unsigned char *at, size_t size, uint32_t symbol, int32_t *registers,
                         int32_t *local_bytes) {
  while (size >= 4) {
    const unsigned format = at[0], attribute = at[1];
    const size_t payload = format == FORMAT_SIZED ? (size_t)at[2] | (size_t)at[3] << 8 : 0;
    at += 4;
    size -= 4;
    if (payload > size)
      return;
    uint32_t pair[2]; /* symbol, value */
    if (payload == sizeof pair) {
      memcpy(pair, at, sizeof pair);
      if (pair[0] == symbol && attribute == ATTRIBUTE_REGISTERS)
        *registers = (int32_t)pair[1];
      if (pair[0] == symbol && attribute == ATTRIBUTE_FRAME_BYTES)
        *local_bytes = (int32_t)pair[1];
    }
    at += payload;
    size -= payload;
  }
}

void ap_cubin_resources(const unsigned char *data, size_t size, const char *symbol,
                        int32_t *registers, int32_t *local_bytes) {
  *registers = 0;
  *local_bytes = -1;
  elf_file elf;
  Elf64_Shdr names, section;
  if (!open_elf(&elf, data, size) || !read_section(&elf, elf.header.e_shstrndx, &names))
    return;
  const uint32_t index = find_symbol(&elf, symbol);
  if (index == 0)
    return;
  for (size_t i = 0; i < elf.header.e_shnum; ++i)
    if (read_section(&elf, i, &section) &&
        strcmp(string_at(&elf, &names, section.sh_name), ".nv.info") == 0)
      read_records(data + section.sh_offset, section.sh_size, index, registers, local_bytes);
}
