"""The file systems that a cell is shown can be neither frozen nor flagged nor trimmed through it."""

ATTACK = r"""
FIFREEZE, FITHAW, FITRIM = 0xc0045877, 0xc0045878, 0xc0185879
FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, EXT4_IOC_RESIZE, FICLONE = 0x40086602, 0x401c5820, 0x40086610, 0x40049409
FS_IOC_SET_ENCRYPTION_POLICY, FS_IOC_ENABLE_VERITY, FIBMAP = 0x800c6613, 0x40806685, 1
word = ctypes.create_string_buffer(b"\x10\0\0\0", 128)
said = {}
for path in ("/usr", "/usr/bin/env", "/"):
    fd = os.open(path, os.O_RDONLY)
    for name, number in dict(FIFREEZE=FIFREEZE, FITHAW=FITHAW, FITRIM=FITRIM, SETFLAGS=FS_IOC_SETFLAGS,
            SETXATTR=FS_IOC_FSSETXATTR, RESIZE=EXT4_IOC_RESIZE, CLONE=FICLONE, VERITY=FS_IOC_ENABLE_VERITY,
            POLICY=FS_IOC_SET_ENCRYPTION_POLICY, FIBMAP=FIBMAP).items():
        said[f"{name} {path}"] = call("ioctl", fd, number, word)
    said["file_setattr " + path] = call("file_setattr", -100, path.encode(), word, 24, 0)
    said["lease " + path] = call("fcntl", fd, 1024, 1)
    said["fallocate " + path] = call("fallocate", fd, 0, 0, 1)
tell(said)
"""


def test_cannot_change_the_hosts_file_systems(attack):
    said = attack(ATTACK).said
    done = {name: got for name, got in said.items() if isinstance(got, int)}
    assert done == {}


def test_quota_and_space_of_its_own_disk_are_all_it_learns(attack):
    said = attack("""tell([os.statvfs(place).f_blocks * os.statvfs(place).f_frsize for place in
                           ("/workspace", "/tmp", "/dev/shm")])""", disk="8M").said
    assert set(said) == {8 << 20}
