import Foundation
import Testing

/// Checks what a route answers against its schema in `Tests/Schemas`.
enum SchemaCheck {
    static func expect(_ text: String, follows schema: String, sourceLocation: SourceLocation = #_sourceLocation)
        async throws
    {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(schema)-\(UUID().uuidString).json")
        defer { try? FileManager.default.removeItem(at: file) }
        try text.write(to: file, atomically: false, encoding: .utf8)
        let check = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent(
            "../../Schemas/check")
        let result = try await Shell.run(check.path, [schema, file.path])
        #expect(result.status == 0, "\(result.text)", sourceLocation: sourceLocation)
    }
}
