"""Data as xarray has them: packed values with missing ones, coordinates, bounds, a mapping; and their encoding."""

import numpy as np
import xarray

PACKED = np.arange(24, dtype="i2").reshape(2, 3, 4)


def dataset():
    """Packed values with missing ones, coordinates of numbers, times, text and two dimensions, bounds and a mapping."""
    values = PACKED.astype("f8") / 100 + 250
    values[1, 2, 3] = np.nan
    return xarray.Dataset(
        {
            "air": (("time", "lat", "lon"), values, {
                "long_name": "Lufttemperatur in °C", "units": "K", "level": np.int32(2), "precision": 0.5,
                "flags": np.array([1, 2, 3], "i4"), "grid_mapping": "crs", "actual": np.array([185.5, 322.25]),
                "names": ["a", "bc"],
            }),
            "crs": ((), np.int32(7), {"grid_mapping_name": "latitude_longitude"}),
            "other": (("lat",), np.arange(3.0)),
        },
        {
            "time": ("time", np.array(["2000-01-01", "2000-01-02"], "datetime64[ns]"), {"standard_name": "time"}),
            "lat": ("lat", np.array([10, 20, 30], "f4"), {"units": "degrees_north"}),
            "station": ("lon", np.array(["a", "bö", "", "ddd"], object)),
            "height": (("lat", "lon"), np.arange(12.0).reshape(3, 4), {"units": "m"}),
        },
        {"title": "two days", "Conventions": "CF-1.11", "count": np.int64(3)},
    )  # fmt: skip


ENCODING = {
    "air": {"dtype": "i2", "scale_factor": 0.01, "add_offset": 250.0, "_FillValue": np.int16(-32768)},
    "time": {"units": "hours since 2000-01-01", "dtype": "i8"},
    "height": {"_FillValue": -1.0},
}


def plain(attributes):
    return {name: np.asarray(value).tolist() for name, value in attributes.items()}
