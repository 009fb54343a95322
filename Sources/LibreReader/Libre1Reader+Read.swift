import FreeStyleLibre
import HealthReadings
import ISO15693Reader

extension Libre1Reader {
    /// Reads the sensor that is at the reader now, and returns it with its readings.
    ///
    /// ```swift
    /// var lives: [String: Libre1Life] = [:]
    /// let read = try await Libre1Reader(reader).readSensor(lives: lives)
    /// print(read.sensor.serial, read.usable.count)
    /// lives[read.sensor.serial] = read.life
    /// ```
    ///
    /// - Parameters:
    ///   - lives: what earlier scans found of the sensors' lives (`Libre1Read.life`), by the sensors' serial numbers, so that a
    ///     reading has the same time at each scan, and those of a sensor that was reset are told from those of before. Which
    ///     sensor is at the reader is only known once it is read.
    ///   - person: whose readings these are.
    ///   - progress: called after each exchange that gave blocks.
    /// - Throws: ``LibreReadError``, as ``read(progress:)``. A sensor of which nothing can be read for a wrong CRC is no error:
    ///   it has no readings.
    public func readSensor(
        lives: [String: Libre1Life] = [:], person: String? = nil, progress: @Sendable (Progress) -> Void = { _ in }
    ) async throws(LibreReadError) -> Libre1Read {
        let scan = try await read(progress: progress)
        return Libre1Read(scan, at: .systemClock, life: lives[scan.serial], person: person)
    }
}
