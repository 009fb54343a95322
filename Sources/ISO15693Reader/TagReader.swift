/// A reader that can also be waited at.
public protocol TagReader: ISO15693Transport {
    /// Waits until a tag is at the reader; ends at once where one is there already.
    ///
    /// Behind libnfc the field is asked twice a second, which is what a person holding a sensor to the reader does not
    /// notice; a PC/SC reader tells by itself.
    /// - Returns: the tag's UID, the highest octet first, as it is printed.
    /// - Throws: what is wrong with the reader, or ``ISO15693Error/cancelled``.
    func waitForTag() async throws(ISO15693Error) -> [UInt8]

    /// Waits until the tag that answered an inventory last is at the reader no more: until two inventories, a second apart,
    /// are not answered, another tag answers, or the reader says so.
    /// - Throws: what is wrong with the reader, or ``ISO15693Error/cancelled``.
    func waitForTagToLeave() async throws(ISO15693Error)
}

extension ISO15693Transport {
    /// Who is in the field.
    /// - Returns: the UID, the highest octet first, as it is printed.
    public func uid() async throws(ISO15693Error) -> [UInt8] {
        try ISO15693Answer.uid(inInventory: try await exchange(.inventory))
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

    /// - Parameter tag: the tag that is to leave; `nil`: the one that answers first.
    func untilGone(_ tag: [UInt8]?) async throws(ISO15693Error) {
        var (tag, misses) = (tag, 0)
        while misses < 2 {
            if let uid = try await look() {
                guard uid == tag ?? uid else { return }
                (tag, misses) = (uid, 0)
            } else {
                misses += 1
            }
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
