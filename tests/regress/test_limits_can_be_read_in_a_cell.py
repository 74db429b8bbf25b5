"""The filter that keeps the core limit from being raised kept it from being read as well."""


def test_every_limit_can_be_read(anyone, isolation):
    result = anyone.run("-q", "-l", "python", "--isolation", isolation, "-c", """
import resource
for name in dir(resource):
    if name.startswith("RLIMIT_"):
        resource.getrlimit(getattr(resource, name))
print("all")
""")
    assert (result.out, result.err) == ("all\n", "")


def test_and_lowered_but_not_raised(anyone, isolation):
    result = anyone.run("-q", "-l", "python", "--isolation", isolation, "-c", """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
print(resource.getrlimit(resource.RLIMIT_NOFILE))
try: resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))
except (ValueError, PermissionError): print("no")
""")
    assert (result.out, result.err) == ("(20, 20)\nno\n", "")
