/// A reader that can also be waited at.
public protocol TagReader: ISO15693Transport {
    /// Waits until a tag is at the reader; ends at once where one is there already.
    ///
    /// Behind libnfc the field is asked twice a second, which is what a person holding a sensor to the reader does not
    /// notice; a PC/SC reader tells by itself.
    /// - Returns: the tag's UID, the highest octet first, as it is printed.
    /// - Throws: what is wrong with the reader, or ``ISO15693Error/cancelled``.
    func waitForTag() async throws(ISO15693Error) -> [UInt8]

    /// Waits until no tag is at the reader: until two inventories, a second apart, are not answered, or the reader
    /// says so.
    /// - Throws: what is wrong with the reader, or ``ISO15693Error/cancelled``.
    func waitForTagToLeave() async throws(ISO15693Error)
}

extension ISO15693Transport {
    /// Who is in the field.
    /// - Returns: the UID, the highest octet first, as it is printed.
    public func uid() async throws(ISO15693Error) -> [UInt8] {
        let data = try await exchange(.inventory)
        guard data.count >= 9 else {
            throw .malformedAnswer("expected a storage format and a UID, found \(data.count) octets")
        }
        return data[1..<9].reversed()
    }
}

/// Asks a field again and again.
struct FieldWatch: Sendable {
    let reader: any ISO15693Transport

    /// The pause between two inventories while a tag is waited for.
    private static let pause = Duration.milliseconds(500)
    /// While it is there: nobody waits for its leaving, and each inventory is work for the tag.
    private static let longPause = Duration.seconds(1)
    /// Answers that are no answer: so many in a row are the reader's fault.
    private static let patience = 4

    func untilTag() async throws(ISO15693Error) -> [UInt8] {
        while true {
            if let uid = try await look() { return uid }
            try await rest(Self.pause)
        }
    }

    func untilNone() async throws(ISO15693Error) {
        var misses = 0
        while misses < 2 {
            misses = try await look() == nil ? misses + 1 : 0
            if misses < 2 { try await rest(Self.longPause) }
        }
    }

    private func look() async throws(ISO15693Error) -> [UInt8]? {
        for attempt in 1... {
            do throws(ISO15693Error) {
                return try await reader.uid()
            } catch .noTag, .tagLeft {
                return nil
            } catch  where error.mayPass && attempt < Self.patience {
                try await rest(Self.pause)
            }
        }
        return nil
    }

    private func rest(_ pause: Duration) async throws(ISO15693Error) {
        do { try await Task.sleep(for: pause) } catch { throw .cancelled }
    }
}
