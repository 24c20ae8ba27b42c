"""Make `insolation.npy`: sunlight at the top of the atmosphere, from orbital mechanics.

Each row is a latitude from 89° S to 89° N in steps of 2°, each column a day of the year; a value
is the mean over that day in W/m². The numbers are real (climate models are driven with them) and
belong to nobody: they follow from the Sun's irradiance and the shape of the Earth's orbit.

Sources: Berger, J. Atmos. Sci. 35 (1978), for the formula; Kopp and Lean, Geophys. Res. Lett. 38
(2011), for 1361 W/m²; the orbit of the epoch J2000.
"""

import sys
from pathlib import Path

import numpy as np

IRRADIANCE = 1361.0  # W/m² at one astronomical unit
ECCENTRICITY = 0.016709
OBLIQUITY = np.radians(23.4393)
PERIHELION = np.radians(282.895)  # longitude of the Sun when the Earth is nearest to it
EQUINOX_DAY, DAYS = 79.0, 365  # 20 March
LATITUDES = np.arange(-89.0, 90.0, 2.0)


def solar_longitude(day: np.ndarray) -> np.ndarray:
    """The Sun's place on the ecliptic on `day`, radians from the spring equinox: Kepler's equation,
    solved by Newton's method."""

    def mean_anomaly(true_anomaly: float) -> float:
        e = ECCENTRICITY
        eccentric = 2 * np.arctan(np.sqrt((1 - e) / (1 + e)) * np.tan(true_anomaly / 2))
        return float(eccentric - e * np.sin(eccentric))

    mean = mean_anomaly(-PERIHELION) + 2 * np.pi * (day - EQUINOX_DAY) / 365.2422
    eccentric = mean.copy()
    for _ in range(8):
        slope = 1 - ECCENTRICITY * np.cos(eccentric)
        eccentric -= (eccentric - ECCENTRICITY * np.sin(eccentric) - mean) / slope
    half = np.sqrt((1 + ECCENTRICITY) / (1 - ECCENTRICITY)) * np.tan(eccentric / 2)
    return 2 * np.arctan(half) + PERIHELION


def insolation() -> np.ndarray:
    """W/m², float32, latitudes by days."""
    longitude = solar_longitude(np.arange(DAYS, dtype=np.float64))
    e = ECCENTRICITY
    distance = (1 - e * e) / (1 + e * np.cos(longitude - PERIHELION))  # astronomical units
    declination = np.arcsin(np.sin(OBLIQUITY) * np.sin(longitude))
    latitude = np.radians(LATITUDES)[:, None]
    # half the length of the day, as an angle: 0 in the polar night, π under the midnight sun
    sunset = np.arccos(np.clip(-np.tan(latitude) * np.tan(declination), -1, 1))
    overhead = sunset * np.sin(latitude) * np.sin(declination)
    overhead += np.cos(latitude) * np.cos(declination) * np.sin(sunset)
    return (IRRADIANCE / np.pi / distance**2 * overhead).clip(0).astype(np.float32)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    np.save(folder / "insolation.npy", insolation())
