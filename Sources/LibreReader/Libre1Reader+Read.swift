import FreeStyleLibre
import HealthReadings
import ISO15693Reader

extension Libre1Reader {
    /// Reads the sensor that is at the reader now, and returns it with its readings.
    ///
    /// ```swift
    /// var starts: [String: Instant] = [:]
    /// let read = try await Libre1Reader(reader).readSensor(starts: starts)
    /// print(read.sensor.serial, read.usable.count)
    /// starts[read.sensor.serial] = read.start
    /// ```
    ///
    /// - Parameters:
    ///   - starts: the starts that earlier scans found (`Libre1Read.start`), by the serial numbers of their sensors, so that a
    ///     reading has the same time at each scan. Which sensor is at the reader is only known once it is read.
    ///   - person: whose readings these are.
    ///   - progress: called after each exchange that gave blocks.
    /// - Throws: ``LibreReadError``, as ``read(progress:)``. A sensor of which nothing can be read for a wrong CRC is no error:
    ///   it has no readings.
    public func readSensor(
        starts: [String: Instant] = [:], person: String? = nil, progress: @Sendable (Progress) -> Void = { _ in }
    ) async throws(LibreReadError) -> Libre1Read {
        let scan = try await read(progress: progress)
        return Libre1Read(scan, at: .systemClock, start: starts[scan.serial], person: person)
    }
}
