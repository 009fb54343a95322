import Foundation
import HealthReadings

/// What an export holds, taken from the file piece by piece: the line with its keys, then the database.
struct ExportContents {
    /// The keys.
    var manifest: ExportManifest
    /// How many octets the file has.
    var length: Int64

    /// Reads a whole export.
    ///
    /// - Parameter database: is given the octets of the database, in order.
    /// - Throws: ``ExportError``, ``StoreError``, `CancellationError`, and what `database` throws.
    static func read(
        _ path: String, passphrase: String, database: (ArraySlice<UInt8>) throws -> Void
    ) throws -> ExportContents {
        try StoreFiles.requireRegular(path)
        let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
        defer { try? file.close() }
        return try read(file, passphrase: passphrase, database: database)
    }

    /// Reads a whole export from its beginning.
    ///
    /// - Parameter database: is given the octets of the database, in order.
    /// - Throws: ``ExportError``, ``StoreError``, `CancellationError`, and what `database` throws.
    static func read(
        _ file: FileHandle, passphrase: String, database: (ArraySlice<UInt8>) throws -> Void
    ) throws -> ExportContents {
        try file.seek(toOffset: 0)
        let header = Array(try file.read(upToCount: ExportFormat.headerLength) ?? Data())
        var opener = try ExportOpener(header: header, passphrase: passphrase)
        var (line, manifest, length): ([UInt8], ExportManifest?, Int64) = ([], nil, Int64(header.count))
        func take(_ octets: [UInt8]) throws {
            guard manifest == nil else { return try database(octets[...]) }
            line += octets
            guard line.count < 4 << 20 else {
                throw StoreError.corrupt(detail: "the export's list of its keys has no end")
            }
            guard let end = line.firstIndex(of: UInt8(ascii: "\n")) else { return }
            do { manifest = try JSONDecoder().decode(ExportManifest.self, from: Data(line[..<end])) } catch {
                throw StoreError.corrupt(detail: "the export's list of its keys cannot be read")
            }
            try database(line[(end + 1)...])
            line = []
        }
        while let octets = try file.read(upToCount: 1 << 20), !octets.isEmpty {
            try Task.checkCancellation()
            length += Int64(octets.count)
            try take(opener.add(octets))
        }
        try take(opener.end())
        guard let manifest else { throw StoreError.corrupt(detail: "the export holds no list of its keys") }
        return ExportContents(manifest: manifest, length: length)
    }
}

extension ReadingStore {
    /// Reads a whole export and checks that a store can be made of it: that the passphrase opens it, that no octet of it
    /// was changed, left out or cut off, and that it holds its keys and a whole database. Nothing is written.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - passphrase: what it was sealed under.
    /// - Returns: how many octets the file has.
    /// - Throws: ``ExportError``, ``StoreError``, `CancellationError`.
    @discardableResult
    public static func checkExport(at path: String, passphrase: String) throws -> Int64 {
        do {
            var database = DatabaseSize()
            let contents = try ExportContents.read(path, passphrase: passphrase) { database.take($0) }
            try database.requireWhole()
            return contents.length
        } catch { throw StoreError.mapping(error) }
    }
}

extension ReadingStore {
    /// Makes a store of an export on trial, checks every row of it as an import does, and removes it again.
    ///
    /// - Parameters:
    ///   - path: the file.
    ///   - passphrase: what it was sealed under.
    ///   - directory: where the trial is made, in a directory of its own.
    ///   - decoder: decodes frames; pure.
    /// - Returns: what the store held.
    /// - Throws: ``ExportError``, ``StoreError``, `CancellationError`.
    package static func trying(
        _ path: String, passphrase: String, in directory: String, decoder: any FrameDecoding
    ) async throws -> StoreStatistics {
        let place = directory + "/restore.trial"
        try clearTrial(in: directory)
        let result: Result<StoreStatistics, any Error>
        do {
            result = .success(try await importing(path, passphrase: passphrase, into: place, decoder: decoder))
        } catch { result = .failure(error) }
        try clearTrial(in: directory)
        return try result.get()
    }

    /// Removes what a trial that was killed has left, its key overwritten.
    package static func clearTrial(in directory: String) throws {
        let place = directory + "/restore.trial"
        guard FileManager.default.fileExists(atPath: place) else { return }
        do {
            try StoreImport.clear(place)
            try KeyFile(source: StoreKeySource(path: place + "/" + StoreEncryption.keyName)).replace(with: [])
            try FileManager.default.removeItem(atPath: place)
        } catch { throw StoreError.mapping(error) }
    }
}

/// Whether a database has as many octets as its header says.
private struct DatabaseSize {
    private static let magic = Array("SQLite format 3\0".utf8)
    /// Where the header has the size of a page, and their number (SQLite's file format, section 1.3).
    private static let (pageSize, pageCount, headerLength) = (16, 28, 100)

    private var header: [UInt8] = []
    private var length: Int64 = 0

    mutating func take(_ octets: ArraySlice<UInt8>) {
        length += Int64(octets.count)
        header += octets.prefix(Self.headerLength - header.count)
    }

    func requireWhole() throws(StoreError) {
        guard header.count == Self.headerLength, header.starts(with: Self.magic) else {
            throw .corrupt(detail: "the export holds no database")
        }
        func number(_ place: Int, _ count: Int) -> Int64 {
            header[place..<(place + count)].reduce(0) { $0 << 8 | Int64($1) }
        }
        let size = number(Self.pageSize, 2)
        guard length == (size == 1 ? 65_536 : size) * number(Self.pageCount, 4) else {
            throw .corrupt(detail: "the export holds \(length) octets of a database of another size")
        }
    }
}
