import Testing
@testable import HCICapture
