"""Whose file it is: meeting files are read only where the user, or the one whom they name, has made them."""

from __future__ import annotations

import errno
import os
import pwd
import stat
import struct

from ..errors import ConnectError

__all__ = ["check_directory", "let_read", "opened", "user_number"]

ADVICE = "use a directory of your own, such as one made by `mkdir -m 700`"
ACL_VERSION, NOBODY = 2, 2**32 - 1  # of <linux/posix_acl_xattr.h>
OWNER, USER, GROUP, MASK, OTHER = 1, 2, 4, 16, 32  # the kinds of its entries, in the order in which they must come


def user_number(user: str | int | None) -> int:
    """The number of the user whose files are taken; this one for None. Not collective.

    Raises
    ------
    ConnectError
        There is no such user.
    """
    if user is None:
        return os.geteuid()
    try:
        if isinstance(user, str):
            return pwd.getpwnam(user).pw_uid
        if isinstance(user, int) and not isinstance(user, bool) and 0 <= user < NOBODY:
            return user
    except (KeyError, ValueError):
        pass
    raise ConnectError(
        f"user = {user!r} must be the name or the number of the user who runs the other job; None if that is you"
    )


def check_directory(path: str, user: int) -> None:
    """See that nobody but these users, and root, can take away what is put into a directory. Not collective.

    Parameters
    ----------
    path : str
        The directory.
    user : int
        The other job's user.

    Raises
    ------
    ConnectError
        It is not there, belongs to somebody else, or others may write to it and it is not sticky.
    """
    try:
        found = os.stat(path)
    except OSError as caught:
        raise ConnectError(f"cannot look at the directory {path}: {caught}") from caught
    if found.st_uid not in (0, os.geteuid(), user):
        raise ConnectError(f"the directory {path} belongs to {_called(found.st_uid)}: {ADVICE}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX:
        raise ConnectError(
            f"others may write to the directory {path} (mode {stat.S_IMODE(found.st_mode):04o}) and replace what is in it: "
            f"{ADVICE}"
        )


def opened(path: str, user: int, flags: int = os.O_RDONLY) -> int:
    """The number of a file of that user, opened; it follows no link and waits for nobody. Not collective.

    Raises
    ------
    ConnectError
        It is a link, no regular file, or belongs to somebody else.
    OSError
        It cannot be opened; FileNotFoundError where it is not there.
    """
    _check_file(path, os.lstat(path), user)  # a device may act on being opened
    try:
        file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as caught:
        if caught.errno == errno.ELOOP:
            raise ConnectError(f"{path} is a symbolic link: remove it") from caught
        raise
    try:
        _check_file(path, os.fstat(file), user)  # it may be another one now
    except BaseException:
        os.close(file)
        raise
    return file


def let_read(file: int, user: int) -> None:
    """Let another user read an open file of this one, and nobody else, by an access control list. Not collective.

    Raises
    ------
    OSError
        The file system has none.
    """
    entries = [(OWNER, 6, NOBODY), (USER, 4, user), (GROUP, 0, NOBODY), (MASK, 4, NOBODY), (OTHER, 0, NOBODY)]
    if not hasattr(os, "setxattr"):
        raise OSError(errno.ENOTSUP, "this system's access control lists are not Linux's")
    packed = b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(file, "system.posix_acl_access", struct.pack("<I", ACL_VERSION) + packed)


def _check_file(path: str, found: os.stat_result, user: int) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise ConnectError(f"{path} is a symbolic link: remove it")
    if not stat.S_ISREG(found.st_mode):
        raise ConnectError(f"{path} is not a regular file: remove it, or use another path")
    if found.st_uid != user:
        raise ConnectError(
            f"{path} belongs to {_called(found.st_uid)}, not to {_called(user)}: {ADVICE}; where the other job is another "
            "user's, give user="
        )


def _called(user: int) -> str:
    try:
        return f"user {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"user {user}"
