/// A reader of ISO 15693 tags: one request, one answer.
///
/// Nothing is asked twice here; who reads a sensor knows what is worth asking again (``ISO15693Error/mayPass``).
/// Requests of several tasks take turns.
public protocol ISO15693Transport: Sendable {
    /// Asks the tag in the field.
    ///
    /// The first request opens the reader. After an error that is the reader's, the next one opens it anew.
    /// - Returns: the answer's data, without its flags octet and CRC (both checked).
    func exchange(_ request: ISO15693Request) async throws(ISO15693Error) -> [UInt8]

    /// Gives the reader back: returns when another process can have it. A later request opens it again.
    func close() async
}
