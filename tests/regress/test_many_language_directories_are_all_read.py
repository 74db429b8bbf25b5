"""From the fifteenth on --languages was ignored without a word."""


def test_all_of_them_or_a_message(hotcell, tmp_path):
    options = []
    for i in range(30):
        directory = tmp_path / str(i)
        directory.mkdir()
        (directory / "x.yaml").write_text(f"""
id: x{i}
name: X
file: main.txt
find: [{{ program: /bin/sh }}]
version: ["{{program}}", -c, "echo 1"]
run: [/bin/echo, ran {i}]
""")
        options += ["--languages", directory]
    for i in (0, 14, 29):
        result = hotcell.run(*options, "-l", f"x{i}", "-c", "")
        assert (result.out, result.err) == (f"ran {i}\n", "") or (
            result.code == 125 and "directories" in result.err)
