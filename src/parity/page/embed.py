"""Makes a C file of the report's page: what stands before its data, and what stands behind.

    embed.py OUT.c PAGE.html PAGE.css PAGE.js
"""
import sys


def array(name, data):
    rows = [", ".join("0x%02x" % b for b in data[i:i + 16]) for i in range(0, len(data), 16)]
    text = "const unsigned char %s[] = {\n%s\n};\nconst size_t %s_bytes = %d;\n"
    return text % (name, ",\n".join(rows), name, len(data))


def main():
    out, page, css, js = sys.argv[1:]
    read = lambda path: open(path, encoding="utf-8").read()  # noqa: E731
    whole = read(page).replace("@CSS@", read(css)).replace("@JS@", read(js))
    before, behind = whole.split("@DATA@")
    with open(out, "w", encoding="utf-8") as f:
        f.write('#include "parity/page.h"\n\n')
        f.write(array("ls_page_before", before.encode()) + array("ls_page_behind", behind.encode()))


if __name__ == "__main__":
    main()
