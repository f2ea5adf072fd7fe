/* Writes a Parquet file of a table that the standard input describes, for test_tables.py, which reads
 * it with other programs.
 *
 *     write_table OUT
 *
 * Input: a line "GROUP_ROWS PAGE_ROWS COLUMNS ROWS"; a line "NAME TYPE OPTIONAL" for each column; then
 * row by row a byte for each cell (0: null), followed by 8 bytes of a number, or by 4 bytes with the
 * size of a text and the text. Exit status: 1 with the message of the writer. */
#include "export/parquet.h"

static const char *const types[] = {"bool", "int32", "int64", "time", "double", "text", "json"};

static bool read_column(ke_parquet_spec *spec)
{
    char name[128], type[16];
    int is_optional;
    if (scanf("%127s %15s %d", name, type, &is_optional) != 3)
        return false;
    for (uint8_t i = 0; i < KB_COUNT(types); i++)
        if (strcmp(type, types[i]) == 0)
            *spec = (ke_parquet_spec){strdup(name), i, is_optional, NULL, NULL};
    return spec->name != NULL;
}

/* A number, or the bits of a double. */
static bool read_number(ke_parquet *w, uint32_t column, uint8_t type)
{
    int64_t value;
    double d;
    if (fread(&value, 8, 1, stdin) != 1)
        return false;
    memcpy(&d, &value, 8);
    if (type == KE_PARQUET_DOUBLE)
        ke_parquet_put_double(w, column, d);
    else
        ke_parquet_put_int(w, column, value);
    return true;
}

static bool read_text(ke_parquet *w, uint32_t column)
{
    uint32_t size;
    if (fread(&size, 4, 1, stdin) != 1)
        return false;
    char *text = malloc((size_t)size + 1);
    bool ok = text && fread(text, 1, size, stdin) == size;
    if (ok)
        ke_parquet_put_text(w, column, (kineto_string){text, size});
    free(text);
    return ok;
}

static bool read_rows(ke_parquet *w, const ke_parquet_spec *specs, uint32_t columns, uint64_t rows)
{
    for (uint64_t row = 0; row < rows; row++) {
        for (uint32_t i = 0; i < columns; i++) {
            int present = getchar();
            if (present == EOF ||
                (present && !(specs[i].type >= KE_PARQUET_TEXT ? read_text(w, i) : read_number(w, i, specs[i].type))))
                return false;
        }
        ke_parquet_end_row(w);
    }
    return true;
}

int main(int argc, char **argv)
{
    ke_parquet_spec specs[64];
    ke_parquet_sizes sizes = {0};
    unsigned long long rows;
    uint32_t columns;
    ke_parquet *w = NULL;
    kineto_error err = {0};
    if (argc != 2 || scanf("%u %u %u %llu", &sizes.group_rows, &sizes.page_rows, &columns, &rows) != 4 || columns > KB_COUNT(specs))
        return 2;
    for (uint32_t i = 0; i < columns; i++)
        if (!read_column(&specs[i]))
            return 2;
    if (getchar() != '\n')
        return 2;
    bool ok = ke_parquet_open(argv[1], specs, columns, &sizes, &w, &err) == KINETO_OK;
    if (ok) {
        ke_parquet_add_metadata(w, "made_by", kb_string("write_table"));
        if (!read_rows(w, specs, columns, rows))
            return 2;
        ok = ke_parquet_close(w, NULL, NULL, &err) == KINETO_OK;
    }
    if (!ok)
        fprintf(stderr, "%s\n", err.message);
    for (uint32_t i = 0; i < columns; i++)
        free((void *)(uintptr_t)specs[i].name);
    return !ok;
}
