/// A format that readings are written in for other people's programs.
///
/// The formats themselves are in extensions: each has its own file, with a constant of this type and the functions that write it.
public struct ReadingFormat: Sendable, Hashable {
    /// The name in settings and for `query --format`: `fhir`.
    public let name: String
    /// The media type of its documents: `application/fhir+json`.
    public let mediaType: String

    /// Makes a format.
    ///
    /// - Parameters:
    ///   - name: the name in settings, in snake_case.
    ///   - mediaType: the media type of its documents.
    public init(name: String, mediaType: String) {
        self.name = name
        self.mediaType = mediaType
    }
}
