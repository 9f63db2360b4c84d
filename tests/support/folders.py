"""What lies in a folder, to be compared with what lay there before."""


def names(folder):
    """Of all that lies there."""
    return {path.name for path in folder.iterdir()}


def content(folder):
    """Every file and its bytes; what is no file, by its kind."""
    return {
        path.name: path.read_bytes()
        if path.is_file() and path.stat().st_size < 1 << 20
        else path.lstat().st_size
        for path in folder.iterdir()
    }
