import FreeStyleLibre
import HealthReadings
import ISO15693Reader

extension Libre1Reader {
    /// Reads the sensor that is at the reader now, and returns it with its readings.
    ///
    /// ```swift
    /// let read = try await Libre1Reader(reader).readSensor()
    /// print(read.sensor.serial, read.usable.count)
    /// let later = try await Libre1Reader(reader).readSensor(start: read.start)
    /// ```
    ///
    /// - Parameters:
    ///   - start: the start that an earlier scan of this sensor found (`Libre1Read.start`), so that a
    ///     reading has the same time at each scan; `nil` at the first one.
    ///   - person: whose readings these are.
    ///   - progress: called after each exchange that gave blocks.
    /// - Throws: ``LibreReadError``, as ``read(progress:)``. A sensor of which nothing can be read for a wrong CRC is no error:
    ///   it has no readings.
    public func readSensor(
        start: Instant? = nil, person: String? = nil, progress: @Sendable (Progress) -> Void = { _ in }
    ) async throws(LibreReadError) -> Libre1Read {
        let scan = try await read(progress: progress)
        return Libre1Read(scan, at: .systemClock, start: start, person: person)
    }
}
